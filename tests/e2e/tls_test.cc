// A cluster with TLS and certificates of deploy/certs trains while all certificates are replaced,
// and refuses strangers.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/fingerprint64.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "monitor/http_client.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord::e2e {
namespace {

class SecureCluster {
 public:
  explicit SecureCluster(uint64_t steps)
      : cluster({.tcp = true, .batch_ms = 2, .job = {{"steps", steps}}}),
        certs_(cluster.root() + "/certs") {
    Certs("lab " + kTasks);
  }
  void Certs(const std::string& words, const std::string& flags = "") {
    const std::string line = PARACORD_SOURCE_DIR "/deploy/certs " + flags + " " + certs_ + " ";
    CAPTURE(line + words);
    REQUIRE(std::system((line + words).c_str()) == 0);
  }
  // Returns the TLS flags for the certificate NAME.crt.
  std::vector<std::string> Keys(const std::string& name) const {
    return {"--tls-cert", certs_ + "/" + name + ".crt",
            "--tls-key",  certs_ + "/" + name + ".key",
            "--tls-ca",   certs_ + "/ca.crt"};
  }
  void Start(const std::string& task, const std::string& name,
             const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = Keys(name);
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (task.starts_with("worker")) {
      arguments.insert(arguments.end(), {"--threads", "1"});
    } else {
      arguments.insert(arguments.end(), {"--listen", cluster.address(task)});
    }
    cluster.Start(task, {}, arguments);
  }
  void StartAll() {
    Start("coordinator", "coordinator");
    for (const std::string i : {"0", "1"}) {
      Start("ps:" + i, "ps-" + i);
      Start("worker:" + i, "worker-" + i);
    }
  }
  // Sends the coordinator a "leaving" message for every possible session, with the certificate
  // NAME.crt. Returns how many messages were refused.
  int EndSessionsAs(const std::string& name) {
    const auto coordinators = NetworkOf("coordinator");
    const auto ps = coordinators->Dial(cluster.address("ps:0"));
    const auto described = Ask<PsDescription>(*ps, method::kDescribe, DescribeRequest());
    REQUIRE(described.ok());
    const auto network = NetworkOf(name);
    const auto link = network->Dial(cluster.address("coordinator"));
    int refused = 0;
    for (uint64_t n = 0; n < 100; ++n) {
      WorkRequest request;
      request.set_session(Fingerprint64(described->coordinator_boot_id()) + n);
      request.set_leaving(true);
      const auto reply = Ask<WorkReply>(*link, method::kWork, request);
      if (absl::IsPermissionDenied(reply.status())) ++refused;
    }
    return refused;
  }
  // Asks the coordinator to let `task` take part, with the certificate NAME.crt.
  absl::Status JoinAs(const std::string& name, const std::string& task) {
    const auto network = NetworkOf(name);
    const auto link = network->Dial(cluster.address("coordinator"));
    JoinRequest request;
    request.set_task(task);
    return Ask<JoinReply>(*link, method::kJoin, request).status();
  }
  // Runs `paracord` with `words` as arguments. Returns the exit code; `said` gets the output.
  int Tool(std::vector<std::string> words, std::string* said = nullptr) {
    const std::string log = cluster.root() + "/tool.log";
    WriteText(log, "");
    words.insert(words.begin(), PARACORD_BIN_DIR "/paracord");
    const int code = Process(words, {}, log).Wait(20000).value_or(-1);
    if (said != nullptr) *said = ReadText(log);
    return code;
  }
  int Status(std::vector<std::string> flags, std::string* said = nullptr) {
    flags.insert(flags.begin(), {"status", "--address", cluster.address("coordinator")});
    return Tool(flags, said);
  }

  inline static const std::string kTasks =
      "coordinator ps:0 ps:1 worker:0 worker:1 operator monitor";
  Cluster cluster;

 private:
  std::unique_ptr<GrpcNetwork> NetworkOf(const std::string& name) {
    const std::vector<std::string> keys = Keys(name);
    const auto loaded = Credentials::Load(
        {.cert = keys[1], .key = keys[3], .ca = keys[5], .token_file = {}, .cluster = {}}, files_);
    REQUIRE(loaded.ok());
    GrpcOptions options;
    options.credentials = *loaded;
    return std::make_unique<GrpcNetwork>(options);
  }
  template <class Reply, class Request>
  static absl::StatusOr<Reply> Ask(Link& link, std::string_view method, const Request& request) {
    return AwaitProto<Reply>(link, method, request, 5000);
  }

  const std::string certs_;
  PosixFiles files_;
};

TEST_CASE("a cluster with certificates trains while authority and certificates are replaced") {
  constexpr uint64_t kSteps = 5000;
  SecureCluster secure(kSteps);
  secure.StartAll();
  const auto trains = [&](const std::string& when) {
    std::string said;
    INFO(when);
    CHECK(WaitUntil(20000, [&] { return secure.Status(secure.Keys("operator"), &said) == 0; }));
    INFO(said);
    CHECK(said.find("INSECURE") == std::string::npos);
  };
  trains("at first");
  secure.Certs("lab", "--new-ca");
  trains("with two authorities");
  secure.Certs("lab " + SecureCluster::kTasks);
  trains("with new certificates");
  secure.Certs("", "--forget-old-ca");
  trains("with the new authority alone");
  CHECK(secure.cluster.Finish() == 0);
  CheckCounted(secure.cluster.dir(), kSteps);
  const nlohmann::json summary = secure.cluster.Summary();
  CHECK(summary.at("computed") == kSteps);
  for (const char* const role : {"worker", "ps", "coordinator"}) {
    CHECK(summary.at("recoveries").at(role) == 0);
  }
}

TEST_CASE("strangers to a cluster with certificates learn and change nothing") {
  constexpr uint64_t kSteps = 400;
  SecureCluster secure(kSteps);
  secure.Start("coordinator", "coordinator");
  secure.Start("ps:0", "ps-0");
  secure.Start("ps:1", "ps-1");
  CHECK(secure.Status({}) != 0);
  CHECK(WaitUntil(20000, [&] { return secure.Status(secure.Keys("monitor")) == 0; }));
  // Health needs no certificate from the daemon's own user on a unix socket.
  CHECK(secure.Tool({"health", secure.cluster.address("ps:0")}) == 0);

  for (const std::string other : {"worker-0", "ps-1"}) {
    secure.Start("worker:1", other);
    CHECK(secure.cluster.at("worker:1").Wait(10000) == 2);
  }
  CHECK(secure.cluster.Logged("worker:1", "is of spiffe://lab/worker/0, and this is worker:1"));
  CHECK(secure.cluster.Logged("worker:1", "is of spiffe://lab/ps/1, and this is worker:1"));
  const std::string refused(secure.JoinAs("worker-0", "worker:1").message());
  INFO(refused);
  CHECK(refused.find("the certificate is of worker:0, which may not speak for worker:1") !=
        std::string::npos);

  secure.cluster.at("ps:1").Kill();
  secure.Start("ps:1", "worker-1");
  CHECK(secure.cluster.at("ps:1").Wait(10000) == 2);
  CHECK(secure.cluster.Logged("ps:1", "is of spiffe://lab/worker/1, and this is ps:1"));

  secure.Start("ps:1", "ps-1");
  secure.Start("worker:0", "worker-0");
  CHECK(WaitUntil(20000, [&] {
    std::string said;
    return secure.Status(secure.Keys("monitor"), &said) == 0 && said.find("worker:0") != said.npos;
  }));
  CHECK(secure.EndSessionsAs("worker-1") > 0);
  for (const std::string i : {"0", "1"}) secure.Start("worker:" + i, "worker-" + i);
  CHECK(secure.cluster.Finish() == 0);
  CheckCounted(secure.cluster.dir(), kSteps);
}

TEST_CASE("a certificate file without a certificate ends any daemon with 2, and is named") {
  SecureCluster secure(10);
  const std::string file = secure.Keys("empty")[1];
  WriteText(file, "");
  WriteText(secure.Keys("empty")[3], "");
  for (const std::string task : {"coordinator", "ps:0", "worker:0"}) {
    CAPTURE(task);
    secure.Start(task, "empty");
    CHECK(secure.cluster.at(task).Wait(10000) == 2);
    CHECK(secure.cluster.Logged(task, "--tls-cert " + file + " has no certificate in PEM"));
  }
}

TEST_CASE("a cluster that goes by a token trains, and does not show it") {
  constexpr uint64_t kSteps = 300;
  SecureCluster secure(kSteps);
  const std::string token = "a-secret-of-the-cluster", file = secure.cluster.root() + "/token";
  WriteText(file, token + "\n");
  const auto start = [&](const std::string& task, const std::string& name) {
    std::vector<std::string> arguments = secure.Keys(name);
    if (task.starts_with("worker")) arguments = {"--tls-ca", arguments[5], "--threads", "1"};
    arguments.insert(arguments.end(), {"--token-file", file, "--cluster-name", "lab"});
    if (!task.starts_with("worker")) {
      arguments.insert(arguments.end(), {"--listen", secure.cluster.address(task)});
    }
    secure.cluster.Start(task, {}, arguments);
  };
  start("coordinator", "coordinator");
  for (const std::string i : {"0", "1"}) {
    start("ps:" + i, "ps-" + i);
    start("worker:" + i, "");
  }
  std::string said;
  const std::vector<std::string> with = {"--tls-ca", secure.Keys("")[5], "--token-file",
                                         file,       "--cluster-name",   "lab"};
  CHECK(WaitUntil(20000, [&] { return secure.Status(with, &said) == 0; }));
  CHECK(said.find(token) == std::string::npos);
  CHECK(secure.cluster.Finish() == 0);
  CheckCounted(secure.cluster.dir(), kSteps);
  for (const char* const task : {"coordinator", "ps:0", "ps:1", "worker:0", "worker:1"}) {
    CHECK_FALSE(secure.cluster.Logged(task, token));
  }
}

TEST_CASE("what a ps with a certificate shows to others is read by HTTPS alone, without one") {
  SecureCluster secure(10);
  const std::string port = FreeTcpAddress().substr(9);  // ":" and the port
  secure.Start("ps:0", "ps-0", {"--http", "0.0.0.0" + port});
  // Returns the page as openssl reads it, or "" if the certificate is not valid for cluster `name`.
  const auto read = [&](const std::string& path, const std::string& ca, const std::string& name) {
    const std::string to = secure.cluster.root() + "/page";
    const std::string command = "printf 'GET " + path +
                                " HTTP/1.1\r\nHost: x\r\n\r\n' | openssl s_client -quiet " +
                                "-verify_return_error -verify_hostname " + name + " -CAfile " + ca +
                                " -connect 127.0.0.1" + port + " 2>/dev/null >" + to;
    return std::system(command.c_str()) == 0 ? ReadText(to) : "";
  };
  const std::string ca = secure.Keys("")[5], old_ca = secure.cluster.root() + "/old.crt";
  WriteText(old_ca, ReadText(ca));
  REQUIRE(WaitUntil(10000, [&] { return CodeOf(read("/livez", ca, "lab")) == 200; }));
  CHECK(secure.cluster.Logged("ps:0", "HTTPS at 0.0.0.0" + port));
  CHECK_FALSE(secure.cluster.Logged("ps:0", "INSECURE"));
  const std::string metrics = read("/metrics", ca, "lab");
  CHECK(metrics.find("paracord_insecure_mode{role=\"ps\",task=\"ps:0\"} 0\n") != metrics.npos);
  CHECK(metrics.find("paracord_certificate_expiry_timestamp_seconds") != metrics.npos);
  const std::string plain = Get("127.0.0.1" + port, "/livez");
  CHECK(CodeOf(plain) == 400);
  CHECK(plain.find("https://") != plain.npos);
  CHECK(secure.cluster.Logged("ps:0", "is refused: it speaks no TLS"));
  CHECK(read("/livez", ca, "plant").empty());

  secure.Certs("lab", "--new-ca");
  secure.Certs("lab ps:0");
  secure.Certs("", "--forget-old-ca");
  CHECK(WaitUntil(10000, [&] { return CodeOf(read("/livez", ca, "lab")) == 200; }));
  CHECK(read("/livez", old_ca, "lab").empty());
}

TEST_CASE("plain text beyond this machine is refused with what to give, or loud") {
  Cluster cluster({.tcp = true, .job = {{"steps", 10}}});
  const std::string port = FreeTcpAddress().substr(9);
  cluster.Start("ps:0", {}, {"--listen", "0.0.0.0" + port});
  CHECK(cluster.at("ps:0").Wait(10000) == 2);
  CHECK(cluster.Logged("ps:0", "give --tls-cert, --tls-key and --tls-ca"));
  cluster.Start("ps:1", {}, {"--listen", "0.0.0.0" + port, "--insecure"});
  CHECK(WaitUntil(10000, [&] { return cluster.Logged("ps:1", "listens at"); }));
  CHECK(cluster.Logged("ps:1", "--insecure: whoever reaches this process"));
}

}  // namespace
}  // namespace paracord::e2e
