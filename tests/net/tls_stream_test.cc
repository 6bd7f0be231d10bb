// Streams under TLS: admission, rights of calls, and peers that break the rules.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"
#include "net/stream_pair.h"
#include "proto/protocol.h"
#include "security/tls_context.h"

namespace paracord {
namespace {

// A ps with an echo service, and a worker.
struct Cluster {
  Cluster() {
    absl::StatusOr<std::unique_ptr<PortMultiplexer>> made = PortMultiplexer::Listen("127.0.0.1:0");
    REQUIRE(made.ok());
    multiplexer = *std::move(made);
    Open(*multiplexer, ps);
  }
  void Open(PortMultiplexer& at, const TestProcess& server) {
    const auto other = [this](int fd) {
      ++others;
      close(fd);
    };
    at.Open({&echo, request_budget, uint64_t{1} << 30}, other, server.credentials);
  }
  std::unique_ptr<Link> Dial(const TestProcess& as, const std::string& at = "") const {
    return MakeStreamLink(std::make_unique<RefusingLink>(at.empty() ? multiplexer->address() : at),
                          as.credentials);
  }
  int Connect() const {
    NameLookup name(multiplexer->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    return *fd;
  }

  const TestCa ca{"lab"};
  TestProcess ps{ca, ca.Issue("URI:spiffe://lab/ps/0")};
  TestProcess worker{ca, ca.Issue("URI:spiffe://lab/worker/3")};
  Echo echo;
  const std::shared_ptr<RequestBudget> request_budget =
      std::make_shared<RequestBudget>(uint64_t{1} << 30);
  std::atomic<int> others = 0;
  std::unique_ptr<PortMultiplexer> multiplexer;
};

TEST_CASE("a stream under TLS brings 64 MB both ways as they were sent, several at once") {
  const Cluster cluster;
  const auto link = cluster.Dial(cluster.worker);
  const std::string text = Pattern(64 << 20);
  auto first = AskLater(*link, method::kExchange, OnePart(text), 60000);
  auto second = AskLater(*link, method::kExchange, OnePart(text), 60000);
  for (auto* const reply : {&first, &second}) {
    const absl::StatusOr<absl::Cord> got = reply->get();
    REQUIRE(got.ok());
    CHECK((std::string(*got) == text));
  }
  CHECK(cluster.others == 0);
  CHECK(Soon([&] { return cluster.request_budget->bytes() == 0; }));
}

TEST_CASE("a call that the peer's role may not make is refused before its body comes") {
  Cluster cluster;
  const auto link = cluster.Dial(cluster.worker);
  for (const std::string_view name : {method::kLoad, method::kAdopt, method::kSnapshot,
                                      method::kFinish, std::string_view("/Echo")}) {
    CAPTURE(name);
    const absl::Status status = Ask(*link, name, OnePart("x")).status();
    CHECK(absl::IsPermissionDenied(status));
    CHECK(std::string(status.message()).find("spiffe://lab/worker/3") != std::string::npos);
  }
  CHECK(Ask(*link, method::kStage, OnePart("x")).ok());
  CHECK(cluster.echo.handled == 1);

  const auto keys = cluster.worker.credentials->Current();
  auto tls = TlsChannel::Make(cluster.Connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->HandshakeWithin(5000).ok());
  REQUIRE(GreetStream(**tls, 5000));
  const Tunnel tunnel(*std::move(tls));
  StreamFrame frame;
  frame.set_kind(StreamFrame::CALL);
  frame.set_call(1);
  frame.set_method(std::string(method::kLoad));
  frame.set_body_bytes(uint64_t{1} << 29);
  const std::string bytes = Framed(frame);
  REQUIRE(write(tunnel.socket(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  std::string answer;
  CHECK(Soon([&] {
    std::array<char, 1000> more{};
    const ssize_t got = recv(tunnel.socket(), more.data(), more.size(), MSG_DONTWAIT);
    if (got > 0) answer.append(more.data(), static_cast<size_t>(got));
    return answer.find("may not call") != std::string::npos;
  }));
  CHECK(cluster.request_budget->bytes() == 0);
  CHECK(cluster.echo.handled == 1);
  close(tunnel.socket());
}

TEST_CASE("a client whom the ps does not believe gets no stream") {
  Cluster cluster;
  const TestCa other("lab");
  const auto refuses = [&](const TestProcess& stranger) {
    const auto link = cluster.Dial(stranger);
    CHECK(absl::IsUnimplemented(Ask(*link, method::kExchange, OnePart("x")).status()));
  };
  // The stranger trusts the ps, but not vice versa.
  TestProcess of_other_ca(cluster.ca, other.Issue("URI:spiffe://lab/worker/0"));
  refuses(of_other_ca);
  refuses(TestProcess(cluster.ca, cluster.ca.Issue("URI:spiffe://plant/worker/0")));
  refuses(TestProcess(cluster.ca, PemPair(), /*token=*/true));  // shows no certificate
  CHECK(cluster.echo.handled == 0);
  CHECK(Ask(*cluster.Dial(cluster.worker), method::kExchange, OnePart("x")).ok());
}

TEST_CASE("a client that is expired, nobody, or of another cluster is not greeted by a ps") {
  Cluster cluster;
  const std::string who = GENERATE("expired", "nobody", "of another cluster");
  CAPTURE(who);
  ContextSource source;
  source.ca_pem = cluster.ca.pem();
  if (who != "nobody") {
    const PemPair pair = who == "expired"
                             ? cluster.ca.Issue("URI:spiffe://lab/worker/0", /*seconds=*/-60)
                             : cluster.ca.Issue("URI:spiffe://plant/worker/0");
    source.chain_pem = pair.cert;
    source.key_pem = pair.key;
  }
  const auto context = MakeContext(Side::kClient, source, false);
  REQUIRE(context.ok());
  auto tls = TlsChannel::Make(cluster.Connect(), context->get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->HandshakeWithin(5000).ok());  // a client finishes its handshake before the server
  CHECK_FALSE(GreetStream(**tls, 5000));
  char byte = 0;
  iovec room{&byte, 1};
  CHECK((*tls)->Receive({&room, 1}) <= 0);
}

TEST_CASE("a client does not believe a ps of another cluster, CA or role") {
  Cluster cluster;
  const TestCa other("lab");
  const std::map<std::string, PemPair> cases = {
      {"another cluster", cluster.ca.Issue("URI:spiffe://plant/ps/0")},
      {"another CA", other.Issue("URI:spiffe://lab/ps/0")},
      {"a worker", cluster.ca.Issue("URI:spiffe://lab/worker/0")},
      {"plain text", {}},
  };
  for (const auto& [name, pair] : cases) {
    CAPTURE(name);
    std::optional<TestProcess> server;
    auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
    REQUIRE(multiplexer.ok());
    if (!pair.cert.empty()) server.emplace(cluster.ca, pair);
    const auto link = cluster.Dial(cluster.worker, (*multiplexer)->address());
    if (server.has_value()) {
      cluster.Open(**multiplexer, *server);
    } else {
      (*multiplexer)->Open({&cluster.echo, cluster.request_budget, 1000}, [](int fd) {
        close(fd);
      });
    }
    CHECK(absl::IsUnimplemented(Ask(*link, method::kExchange, OnePart("x")).status()));
  }
  CHECK(cluster.echo.handled == 0);
}

TEST_CASE("a token lets a client in that has no certificate, and a wrong one does not") {
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
  const TestProcess right(ca, PemPair(), /*token=*/true);
  TestProcess wrong(ca, PemPair(), /*token=*/true);
  wrong.keys.Write("token", "not-the-secret-of-the-cluster");
  wrong.now_ms += 5000;
  Cluster cluster;
  auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  cluster.Open(**multiplexer, ps);
  CHECK(Ask(*cluster.Dial(right, (*multiplexer)->address()), "/Echo", OnePart("x")).ok());
  CHECK(absl::IsUnimplemented(
      Ask(*cluster.Dial(wrong, (*multiplexer)->address()), "/Echo", OnePart("x")).status()));
  CHECK(cluster.echo.handled == 1);
  // A caller with a certificate needs no token, and has the rights of its role.
  const TestProcess worker(ca, ca.Issue("URI:spiffe://lab/worker/0"));
  const auto link = cluster.Dial(worker, (*multiplexer)->address());
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
  CHECK(absl::IsPermissionDenied(Ask(*link, "/Echo", OnePart("x")).status()));
}

// Connects as `as`. Returns the greeted channel, or nullptr if the peer does not greet.
std::unique_ptr<Channel> GreetedAs(const Cluster& cluster, const TestProcess& as) {
  const auto keys = as.credentials->Current();
  auto tls = TlsChannel::Make(cluster.Connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->HandshakeWithin(5000).ok());
  if (!GreetStream(**tls, 5000)) return nullptr;
  return *std::move(tls);
}

TEST_CASE("only who may call what streams carry gets streams, and one task gets 64 of them") {
  Cluster cluster;
  for (const std::string role : {"monitor", "operator", "coordinator"}) {
    CAPTURE(role);
    CHECK(GreetedAs(cluster, TestProcess(cluster.ca,
                                         cluster.ca.Issue("URI:spiffe://lab/" + role))) == nullptr);
  }
  std::vector<std::unique_ptr<Channel>> streams;
  for (int i = 0; i < 64; ++i) streams.push_back(GreetedAs(cluster, cluster.worker));
  for (const auto& stream : streams) REQUIRE(stream != nullptr);
  CHECK(GreetedAs(cluster, cluster.worker) == nullptr);
  const TestProcess other(cluster.ca, cluster.ca.Issue("URI:spiffe://lab/worker/4"));
  CHECK(GreetedAs(cluster, other) != nullptr);
  streams.clear();
  CHECK(Soon([&] { return GreetedAs(cluster, cluster.worker) != nullptr; }));
}

TEST_CASE("no call fails while certificates and their CA are replaced") {
  Cluster cluster;
  const TestCa next("lab2");
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0, failed = 0;
  int late = 0;
  std::thread caller([&] {
    const auto dial = [&] { return cluster.Dial(cluster.worker); };
    auto kept = dial();
    while (!stop) {
      auto fresh = dial();  // one handshake each
      for (std::unique_ptr<Link>* const link : {&kept, &fresh}) {
        if (!AskAgainIfLate(*link, method::kExchange, dial, late)) ++failed;
        ++calls;
      }
    }
  });
  const auto step = [&](const std::function<void(const TestProcess&)>& change) {
    for (TestProcess* const process : {&cluster.ps, &cluster.worker}) {
      change(*process);
      process->now_ms += 5000;
    }
    const int before = calls;
    CHECK(Soon([&] { return calls > before + 10; }));
  };
  step([&](const TestProcess& process) {
    process.keys.Write("ca.crt", cluster.ca.pem() + next.pem());
  });
  cluster.ps.keys.Put(next.Issue("URI:spiffe://lab/ps/0"));
  cluster.worker.keys.Put(next.Issue("URI:spiffe://lab/worker/3"));
  step([](const TestProcess&) {});
  step([&](const TestProcess& process) { process.keys.Write("ca.crt", next.pem()); });
  stop = true;
  caller.join();
  CHECK(calls > 30);
  CHECK(failed == 0);
  CHECK(late < calls / 4);
  // Certificates of the former CA are now worthless.
  TestProcess former(next, cluster.ca.Issue("URI:spiffe://lab/worker/3"));
  const auto link = cluster.Dial(former);
  CHECK(absl::IsUnimplemented(Ask(*link, method::kExchange, OnePart("x")).status()));
}

// Returns the first bytes of one of our clients.
std::string HelloOf(const Cluster& cluster) {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
  const auto keys = cluster.worker.credentials->Current();
  auto tls = TlsChannel::Make(pair[0], keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->Handshake().ok());
  std::string bytes(4096, '\0');
  const ssize_t got = recv(pair[1], bytes.data(), bytes.size(), 0);
  close(pair[1]);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

// Returns a number in /proc/self/status, such as "Threads:".
size_t Own(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != what) continue;
    size_t count = 0;
    status >> count;
    return count;
  }
  return 0;
}

TEST_CASE("half handshakes cost no thread and little memory, hold up nobody, and end after 5 s") {
  Cluster cluster;
  const std::string hello = HelloOf(cluster);
  REQUIRE(hello.size() > 100);
  REQUIRE(Ask(*cluster.Dial(cluster.worker), method::kExchange, OnePart("x")).ok());
  const size_t threads = Own("Threads:");
  const size_t before_kb = Own("VmRSS:");
  constexpr int kEach = 100;
  std::vector<int> fds;
  for (int i = 0; i < kEach; ++i) {
    for (const size_t size : {hello.size(), hello.size() / 2}) {
      fds.push_back(cluster.Connect());
      REQUIRE(write(fds.back(), hello.data(), size) == static_cast<ssize_t>(size));
    }
  }
  const int64_t begun_ms = SteadyMs();
  // The multiplexer answers clients that have sent enough.
  CHECK(Soon([&] {
    char byte = 0;
    return recv(fds[fds.size() - 2], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(Own("VmRSS:") < before_kb + kEach * 100);
#else
  (void)before_kb;
#endif
  CHECK(Own("Threads:") <= threads + 1);
  CHECK(Ask(*cluster.Dial(cluster.worker), method::kExchange, OnePart("x")).ok());
  for (const int fd : fds) {
    CHECK(Soon([&] { return ClosedByPeer(fd); }));
    close(fd);
  }
  CHECK(SteadyMs() - begun_ms < 9000);
  CHECK(cluster.others == 0);
}

TEST_CASE("at a port of TLS, plain text and garbage are closed, and gRPC over TLS is handed on") {
  Cluster cluster;
  const std::string hello = HelloOf(cluster);
  std::string broken = hello;
  broken[43] = static_cast<char>(0xff);  // the size of the session id
  std::string version = hello;
  version[1] = 9;
  const std::map<std::string, std::string> cases = {
      {"plain stream", kStreamGreeting},
      {"plain gRPC", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"HTTP", "GET / HTTP/1.1\r\n\r\n"},
      {"a record of zeros", std::string("\x16\x03\x01\x00\x20", 5) + std::string(32, '\0')},
      {"a hello with a broken body", broken},
      {"another version", version},
      {"an alert after the hello", hello + std::string("\x15\x03\x03\x00\x02\x02\x28", 7)},
      {"text after the hello", hello + "paracord/1\n"},
      {"data after the hello", hello + std::string("\x17\x03\x03\x00\x05hello", 10)},
  };
  for (const auto& [name, bytes] : cases) {
    CAPTURE(name);
    const int fd = cluster.Connect();
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    CHECK(ClosedByPeer(fd));
    close(fd);
  }
  CHECK(cluster.others == 0);
  std::string grpc = hello;
  grpc.replace(grpc.find("\x0aparacord/1"), 11, "\x02h2\x07unknown");
  const int fd = cluster.Connect();
  REQUIRE(write(fd, grpc.data(), grpc.size()) == static_cast<ssize_t>(grpc.size()));
  CHECK(Soon([&] { return cluster.others == 1; }));
  close(fd);
  CHECK(Ask(*cluster.Dial(cluster.worker), method::kExchange, OnePart("x")).ok());
  CHECK(cluster.echo.handled == 1);
}

TEST_CASE("older versions of TLS, which could renegotiate, are refused, and keys may be renewed") {
  Cluster cluster;
  const auto keys = cluster.worker.credentials->Current();
  {
    auto tls = TlsChannel::Make(cluster.Connect(), keys->client.get(), TlsChannel::End::kClient);
    REQUIRE(tls.ok());
    SSL_set_min_proto_version((*tls)->ssl(), TLS1_2_VERSION);
    SSL_set_max_proto_version((*tls)->ssl(), TLS1_2_VERSION);
    const absl::Status status = (*tls)->HandshakeWithin(5000);
    CHECK(absl::IsUnauthenticated(status));
    CHECK(std::string(status.message()).find("protocol version") != std::string::npos);
  }
  auto tls = TlsChannel::Make(cluster.Connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->HandshakeWithin(5000).ok());
  CHECK(SSL_renegotiate((*tls)->ssl()) == 0);
  REQUIRE(GreetStream(**tls, 5000));
  REQUIRE(SSL_key_update((*tls)->ssl(), SSL_KEY_UPDATE_REQUESTED) == 1);
  const Tunnel tunnel(*std::move(tls));
  for (uint64_t call = 1; call <= 3; ++call) {
    StreamFrame frame;
    frame.set_kind(StreamFrame::CALL);
    frame.set_call(call);
    frame.set_method(std::string(method::kExchange));
    frame.set_body_bytes(5);
    const std::string bytes = Framed(frame) + "hello";
    REQUIRE(write(tunnel.socket(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
    std::string answer;
    CHECK(Soon([&] {
      std::array<char, 1000> more{};
      const ssize_t got = recv(tunnel.socket(), more.data(), more.size(), MSG_DONTWAIT);
      if (got > 0) answer.append(more.data(), static_cast<size_t>(got));
      return answer.ends_with("hello");
    }));
  }
  close(tunnel.socket());
}

// A proxy between a client and the multiplexer. It forwards `bytes` of the client's bytes, then
// cuts the connection, or changes the next byte and goes on.
class Meddler {
 public:
  Meddler(const std::string& to, uint64_t bytes, bool cuts) : to_(to), left_(bytes), cuts_(cuts) {
    const absl::StatusOr<ListeningSockets> listening = ListenAt("127.0.0.1:0");
    REQUIRE(listening.ok());
    listener_ = listening->fds[0];
    address_ = listening->address;
    thread_ = std::thread([this] { Run(); });
  }
  ~Meddler() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }

 private:
  static void PutAll(int fd, const char* bytes, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t put = send(fd, bytes + done, size - done, MSG_NOSIGNAL);
      if (put < 0 && errno != EAGAIN) return;
      if (put > 0) done += static_cast<size_t>(put);
    }
  }
  void Run() {
    int client = -1;
    while (client < 0 && !stop_) {
      pollfd wanted{listener_, POLLIN, 0};
      poll(&wanted, 1, 50);
      client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
    }
    NameLookup name(to_);
    const absl::StatusOr<int> server = ConnectSocket(name, 10000);
    std::vector<char> bytes(1 << 16);
    for (bool over = client < 0 || !server.ok(); !over && !stop_;) {
      pollfd ready[] = {{client, POLLIN, 0}, {*server, POLLIN, 0}};
      poll(ready, 2, 50);
      ssize_t got = recv(*server, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) PutAll(client, bytes.data(), static_cast<size_t>(got));
      over = got == 0 || (got < 0 && errno != EAGAIN);
      got = recv(client, bytes.data(), bytes.size(), MSG_DONTWAIT);
      over = over || got == 0 || (got < 0 && errno != EAGAIN);
      if (got <= 0) continue;
      const auto size = static_cast<size_t>(got);
      if (!meddled_ && left_ < size) {
        meddled_ = true;
        if (cuts_) {
          PutAll(*server, bytes.data(), left_);
          break;
        }
        bytes[left_] = static_cast<char>(bytes[left_] ^ 1);
      }
      left_ -= std::min<uint64_t>(left_, size);
      PutAll(*server, bytes.data(), size);
    }
    if (client >= 0) close(client);
    if (server.ok()) close(*server);
  }

  const std::string to_;
  uint64_t left_;
  const bool cuts_;
  bool meddled_ = false;
  std::atomic<bool> stop_ = false;
  int listener_ = -1;
  std::string address_;
  std::thread thread_;
};

TEST_CASE("a stream that is cut, or changed on its way, brings no wrong byte and ends") {
  Cluster cluster;
  const std::string text = Pattern(300000);
  const bool cuts = GENERATE(true, false);
  // The offsets lie in the hello, in the client's part of the handshake, in the greeting, in the
  // head of a record, and in the records of a body.
  for (const uint64_t at : {3u, 150u, 700u, 1500u, 20000u, 65000u, 200000u}) {
    CAPTURE(cuts, at);
    const int handled = cluster.echo.handled;
    const Meddler meddler(cluster.multiplexer->address(), at, cuts);
    const auto link = cluster.Dial(cluster.worker, meddler.address());
    const absl::Status status = Ask(*link, method::kExchange, OnePart(text), 20000).status();
    CAPTURE(status);
    CHECK((absl::IsUnavailable(status) || absl::IsUnimplemented(status)));
    CHECK(cluster.echo.handled == handled);
    CHECK(Soon([&] { return cluster.request_budget->bytes() == 0; }));
  }
  CHECK(Ask(*cluster.Dial(cluster.worker), method::kExchange, OnePart(text)).ok());
}

}  // namespace
}  // namespace paracord
