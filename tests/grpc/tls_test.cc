// gRPC under TLS: admission, rights of calls, and keys that change.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "net/grpc/network.h"
#include "net/name_lookup.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
#include "security/call_rights.h"
#include "tests/certificates.h"

namespace paracord {
namespace {

using Reply = absl::StatusOr<absl::Cord>;

// Answers with the caller's name, and counts admitted calls.
class CallerService : public Service {
 public:
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    ++calls;
    call->Reply(Parts{absl::Cord(std::string(call->caller()))});
  }
  std::atomic<int> calls = 0;
};

// A process with its own keys.
struct Process {
  Process(const std::string& ca, const PemPair& pair, NodeRights nodes = {}) : keys(ca, pair) {
    SecurityOptions options = keys.options();
    options.nodes = nodes;
    Load(options);
  }
  Process(const std::string& ca, const PemPair& pair, const std::string& token, bool certificate)
      : keys(ca, pair) {
    SecurityOptions options = keys.options();
    keys.Write("token", token);
    options.token_file = keys.Path("token");
    if (!certificate) options.cert = options.key = "";
    Load(options);
  }
  void Load(const SecurityOptions& options) {
    static PosixFiles files;  // used by the same threads as the clock
    auto loaded = Credentials::Load(options, files, [clock = clock] { return clock->load(); });
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    credentials = *loaded;
    GrpcOptions grpc;
    grpc.credentials = *loaded;
    network = std::make_unique<GrpcNetwork>(grpc);
  }
  Reply Call(const std::string& address, std::string_view method, int64_t deadline_ms = 5000) {
    return CallOn(*network->Dial(address), method, deadline_ms);
  }
  static Reply CallOn(Link& link, std::string_view method, int64_t deadline_ms = 5000) {
    std::promise<Reply> answer;
    link.Call(method, Parts{absl::Cord("body")}, deadline_ms,
              [&](Reply reply) { answer.set_value(std::move(reply)); });
    return answer.get_future().get();
  }

  // Shared with threads of handshakes, which may outlive this object.
  const std::shared_ptr<std::atomic<int64_t>> clock =
      std::make_shared<std::atomic<int64_t>>(1'000'000);
  std::atomic<int64_t>& now_ms = *clock;
  TestKeys keys;
  std::shared_ptr<Credentials> credentials;
  std::unique_ptr<GrpcNetwork> network;
};

std::unique_ptr<Listener> ListenWith(Process& process, Service& service) {
  auto listener = process.network->Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  return *std::move(listener);
}

// A short deadline, because a refused caller keeps waiting for a connection.
constexpr int64_t kRefusedMs = 400;

TEST_CASE("every call is open to the roles of its row alone, and closed to all strangers") {
  const TestCa ca("lab"), other("lab");
  std::map<PeerRole, std::unique_ptr<Process>> peers;
  for (const PeerRole role : kPeerRoles) {
    const std::string uri = PeerIdentity{"lab", role, 0}.Uri();
    peers[role] = std::make_unique<Process>(ca.pem(), ca.Issue("URI:" + uri));
  }
  Process wrong_ca(ca.pem(), other.Issue("URI:spiffe://lab/worker/0"));
  Process misled(other.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  Process plant(ca.pem(), ca.Issue("URI:spiffe://plant/worker/0"));
  Process expired(ca.pem(), ca.Issue("URI:spiffe://lab/worker/0", /*seconds=*/2));
  // Until the certificate has expired.
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  for (const PeerRole server : {PeerRole::kPs, PeerRole::kCoordinator}) {
    CallerService service;
    const auto listener = ListenWith(*peers[server], service);
    const std::string address = listener->address();
    for (const auto& [role, peer] : peers) {
      const auto link = peer->network->Dial(address);
      for (const CallRight& right : CallRights()) {
        if (right.served_by.value_or(server) != server) continue;
        CAPTURE(std::string(right.method), std::string(NameOf(role)));
        const int before = service.calls;
        const Reply reply = Process::CallOn(*link, right.method);
        if (Allowed(right.method, role)) {
          CHECK(*reply == std::string(NameOf(role)) + ":0");
        } else {
          CHECK(absl::IsPermissionDenied(reply.status()));
          CHECK(service.calls == before);
        }
      }
      CHECK(absl::IsPermissionDenied(Process::CallOn(*link, "/t/unknown").status()));
    }
    uint64_t noted = 0;
    for (const auto& [who, count] : peers[server]->network->refused()->counts()) {
      if (who.first == RefusedPeers::Cause::kRight && !who.second.empty()) noted += count;
    }
    // The first refused call of each connection; a link has one for each role that it expects.
    CHECK(noted >= peers.size());
    CHECK(noted <= 2 * peers.size());
    const int before = service.calls;
    for (Process* const stranger : {&wrong_ca, &misled, &plant, &expired}) {
      const auto link = stranger->network->Dial(address);
      CHECK_FALSE(Process::CallOn(*link, CallRights().back().method, kRefusedMs).ok());
    }
    GrpcNetwork plain;
    CHECK_FALSE(Process::CallOn(*plain.Dial(address), "/paracord.Health/Check", kRefusedMs).ok());
    CHECK(service.calls == before);
  }
}

TEST_CASE("workers of a cluster without ps serve what they stand for, to who knows the cluster") {
  const TestCa ca("lab");
  const auto worker = [&](int index, const NodeRights& nodes) {
    const std::string uri = "URI:spiffe://lab/worker/" + std::to_string(index);
    return std::make_unique<Process>(ca.pem(), ca.Issue(uri), nodes);
  };
  const auto join = "/paracord.Coordinator/Join", adopt = "/paracord.ParameterServer/Adopt",
             exchange = "/paracord.ParameterServer/Exchange";
  for (const int serving : {0, 1}) {
    CAPTURE(serving);
    const auto node = worker(serving, {.ps = {"a:1", "b:1"}, .coordinator = true});
    CallerService service;
    const auto listener = ListenWith(*node, service);
    const std::string address = listener->address();
    const auto cluster = [&](int at, bool has_chief) {
      NodeRights nodes{.ps = {"a:1", "b:1"}, .coordinator = !has_chief};
      nodes.ps[static_cast<size_t>(at)] = address;
      return nodes;
    };
    const NodeRights alone = cluster(serving, false), led = cluster(serving, true);
    const auto first = worker(0, alone), second = worker(1, alone);
    CHECK(first->Call(address, exchange).ok());
    CHECK(second->Call(address, exchange).ok());
    CHECK(first->Call(address, adopt).ok());
    CHECK(absl::IsPermissionDenied(second->Call(address, adopt).status()));
    CHECK(second->Call(address, join, kRefusedMs).ok() == (serving == 0));
    // A caller that knows a chief does not accept a worker as coordinator, and a caller that knows
    // ps does not accept a worker as ps.
    const int before = service.calls;
    CHECK_FALSE(worker(1, led)->Call(address, join, kRefusedMs).ok());
    CHECK_FALSE(worker(1, {})->Call(address, exchange, kRefusedMs).ok());
    // The cluster has another worker at the address, whose place this one has taken.
    const Reply misplaced =
        worker(1, cluster(1 - serving, false))->Call(address, exchange, kRefusedMs);
    CHECK_FALSE(misplaced.ok());
    CHECK(service.calls == before);
  }
}

TEST_CASE("a worker is told no orders by another one that is not the coordinator as well") {
  const TestCa ca("lab");
  const auto process = [&](const std::string& name, const NodeRights& nodes) {
    return std::make_unique<Process>(ca.pem(), ca.Issue("URI:spiffe://lab/worker" + name), nodes);
  };
  const auto adopt = "/paracord.ParameterServer/Adopt", join = "/paracord.Coordinator/Join";
  for (const bool has_chief : {false, true}) {
    CAPTURE(has_chief);
    NodeRights nodes{.ps = {"a:1", "b:1"}, .coordinator = !has_chief};
    const auto node = process("/1", nodes);
    CallerService service;
    const auto listener = ListenWith(*node, service);
    nodes.ps[1] = listener->address();
    CHECK(process("/0", nodes)->Call(listener->address(), adopt).ok() == !has_chief);
    const int before = service.calls;
    CHECK(absl::IsPermissionDenied(process("", nodes)->Call(listener->address(), adopt).status()));
    CHECK(
        absl::IsPermissionDenied(process("/1", nodes)->Call(listener->address(), adopt).status()));
    CHECK(service.calls == before);
  }
  // A certificate for every worker is no coordinator's.
  const NodeRights alone{.ps = {"a:1"}, .coordinator = true};
  const auto every = process("", alone);
  CallerService service;
  const auto listener = ListenWith(*every, service);
  CHECK_FALSE(process("/1", alone)->Call(listener->address(), join, kRefusedMs).ok());
  CHECK(service.calls == 0);
}

TEST_CASE("a port that asks for TLS closes streams and bytes in plain text") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"));
  CallerService service;
  const auto listener = ListenWith(ps, service);
  for (const std::string& begin :
       {std::string(kStreamGreeting), std::string("PRI * HTTP/2.0\r\n\r\n"),
        std::string("\x16garbage that is no handshake at all")}) {
    NameLookup name(listener->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    REQUIRE(send(*fd, begin.data(), begin.size(), MSG_NOSIGNAL) > 0);
    fcntl(*fd, F_SETFL, 0);
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char bytes[64];
    ssize_t got = 0;
    while ((got = recv(*fd, bytes, sizeof(bytes), 0)) > 0 && bytes[0] == 21) {
    }  // an alert of TLS may come before the end
    CHECK((got == 0 || (got < 0 && errno == ECONNRESET)));
    close(*fd);
  }
  CHECK(service.calls == 0);
}

TEST_CASE("a client does not speak to a peer of another role, and says who it is") {
  const TestCa ca("lab");
  Process false_ps(ca.pem(), ca.Issue("URI:spiffe://lab/worker/3"));
  Process coordinator(ca.pem(), ca.Issue("URI:spiffe://lab/coordinator/0"));
  CallerService service;
  const auto listener = ListenWith(false_ps, service);
  const Reply reply =
      coordinator.Call(listener->address(), "/paracord.ParameterServer/Describe", kRefusedMs);
  CHECK(std::string(reply.status().message())
            .find("the peer there is spiffe://lab/worker/3, and not a ps") != std::string::npos);
  CHECK(coordinator.Call(listener->address(), "/paracord.Health/Check").ok());
}

TEST_CASE("the token stands for a certificate, over TLS alone, and a wrong one for nothing") {
  const TestCa ca("lab");
  const std::string token = "a-secret-of-the-cluster";
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"), token, /*certificate=*/true);
  CallerService service;
  const auto listener = ListenWith(ps, service);
  Process friendly(ca.pem(), {}, token, /*certificate=*/false);
  Process guessing(ca.pem(), {}, "a-secret-of-the-clustes", /*certificate=*/false);
  for (const CallRight& right : CallRights()) {
    if (right.served_by.value_or(PeerRole::kPs) != PeerRole::kPs) continue;
    CHECK(*friendly.Call(listener->address(), right.method) == "");
    const Reply refused = guessing.Call(listener->address(), right.method);
    CHECK(absl::IsUnauthenticated(refused.status()));
    CHECK(std::string(refused.status().message()).find("secret") == std::string::npos);
  }
  CHECK(ps.network->refused()->counts()[{RefusedPeers::Cause::kRight, ""}] > 0);
  const std::string said = ps.network->refused()->last();
  CHECK(said.starts_with("refuses 127.0.0.1:"));
  CHECK(
      said.ends_with(": a caller needs a certificate of the cluster (--tls-cert), or its token "
                     "(--token-file)"));
  // The certificate decides, even if its owner also has the token.
  Process worker(ca.pem(), ca.Issue("URI:spiffe://lab/worker/0"), token, /*certificate=*/true);
  CHECK(absl::IsPermissionDenied(
      worker.Call(listener->address(), "/paracord.ParameterServer/Adopt").status()));
}

TEST_CASE("the token is shown to ps and coordinator alone, whatever is called") {
  const TestCa ca("lab");
  const std::string token = "a-secret-of-the-cluster";
  Process worker(ca.pem(), ca.Issue("URI:spiffe://lab/worker/3"), token, /*certificate=*/true);
  CallerService service;
  const auto listener = ListenWith(worker, service);
  Process client(ca.pem(), {}, token, /*certificate=*/false);
  const Reply reply = client.Call(listener->address(), "/paracord.Health/Check", kRefusedMs);
  CHECK(std::string(reply.status().message())
            .find("the peer there is spiffe://lab/worker/3, and the token") != std::string::npos);
  CHECK(service.calls == 0);
}

TEST_CASE("keys are replaced while calls run, and no call fails") {
  const TestCa ca("lab"), next("lab 2");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"));
  Process worker(ca.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  CallerService service;
  const auto listener = ListenWith(ps, service);
  std::atomic<bool> over = false;
  std::atomic<int> good = 0, bad = 0;
  std::thread caller([&] {
    const auto link = worker.network->Dial(listener->address());
    while (!over) {
      const Reply reply = Process::CallOn(*link, "/paracord.ParameterServer/Exchange");
      ++(reply.ok() ? good : bad);
    }
  });
  const auto step = [&](Process& process) {
    process.now_ms += 1000;
    const int before = good;
    while (good < before + 3 && bad == 0) std::this_thread::yield();
  };
  const std::string both = next.pem() + ca.pem();
  for (Process* const process : {&ps, &worker}) process->keys.Write("ca.crt", both);
  for (Process* const process : {&ps, &worker}) step(*process);
  worker.keys.Put(next.Issue("URI:spiffe://lab/worker/0"));
  step(worker);
  ps.keys.Put(next.Issue("URI:spiffe://lab/ps/0"));
  step(ps);
  for (Process* const process : {&ps, &worker}) process->keys.Write("ca.crt", next.pem());
  for (Process* const process : {&ps, &worker}) step(*process);
  over = true;
  caller.join();
  CHECK(bad == 0);
  Process late(both, ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK_FALSE(
      late.Call(listener->address(), "/paracord.ParameterServer/Exchange", kRefusedMs).ok());
}

TEST_CASE("plain text stays on this machine unless --insecure allows it out") {
  CallerService service;
  GrpcNetwork careful;
  const absl::Status refused = careful.Listen("0.0.0.0:0", service).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(std::string(refused.message()).find("--insecure") != std::string::npos);
  CHECK(careful.Listen("127.0.0.1:0", service).ok());
  CHECK(absl::IsFailedPrecondition(
      Process::CallOn(*careful.Dial("192.0.2.1:7400"), "/paracord.Health/Check").status()));
  GrpcOptions options;
  options.insecure = true;
  GrpcNetwork open(options);
  const auto listener = open.Listen("0.0.0.0:0", service);
  REQUIRE(listener.ok());
  const std::string address = "127.0.0.1" + (*listener)->address().substr(7);
  CHECK(Process::CallOn(*open.Dial(address), "/paracord.Health/Check").ok());
}

}  // namespace
}  // namespace paracord
