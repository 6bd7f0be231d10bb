// Clusters of nodes that are started wrongly, or have certificates.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

// Runs paracord-worker until it exits, and keeps the exit code and the output.
struct NodeRun {
  NodeRun(const json& cluster, const std::string& task, const std::vector<std::string>& arguments) {
    const TestDirectory directory;
    const std::string log = directory / "log";
    std::vector<std::string> command = {PARACORD_BIN_DIR "/paracord-worker", "--task", task};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(command, {{"TF_CONFIG", TextOf(json({{"cluster", cluster}}))}}, log);
    code = process.Wait(20000).value_or(-1);
    said = ReadText(log);
  }
  bool Says(const std::string& text) const { return said.find(text) != std::string::npos; }
  int code = -1;
  std::string said;
};

TEST_CASE("a node that lacks what it needs leaves with 2 and names it") {
  const json two = {{"worker", {"127.0.0.1:1", "127.0.0.1:2"}}};
  const json hole = {{"worker", {{"0", "127.0.0.1:1"}, {"2", "127.0.0.1:2"}}}};
  const NodeRun no_dir(two, "worker:1", {});
  CAPTURE(no_dir.said);
  CHECK(no_dir.code == 2);
  CHECK(no_dir.Says("worker:1 needs --dir DIR: the cluster has no ps (key cluster.ps)"));
  const NodeRun no_job(two, "worker:0", {"--dir", "/tmp"});
  CAPTURE(no_job.said);
  CHECK(no_job.code == 2);
  CHECK(no_job.Says("worker:0 needs --job FILE"));
  for (const char* const task : {"worker:0", "worker:2"}) {
    const NodeRun lacks_one(hole, task, {"--dir", "/tmp", "--job", "/tmp/none"});
    CAPTURE(lacks_one.said);
    CHECK(lacks_one.code == 2);
    CHECK(lacks_one.Says("cluster.worker has index 2 and no index 1"));
  }
  const NodeRun small(two, "worker:1", {"--dir", "/tmp", "--memory-limit", "200MiB"});
  CAPTURE(small.said);
  CHECK(small.code == 2);
  CHECK(small.Says("--memory-limit: must be at least 256.0 MiB for worker:1, which holds"));
  const json far = {{"worker", {"127.0.0.1:1", "192.0.2.1:2"}}};
  const NodeRun plain(far, "worker:0", {"--dir", "/tmp", "--job", "/tmp/none"});
  CAPTURE(plain.said);
  CHECK(plain.code == 2);
  CHECK(plain.Says("the worker at 192.0.2.1:2 is on another machine"));
}

TEST_CASE("a job that cannot be read ends node 0 with 2") {
  const TestDirectory directory;
  const json one = {{"worker", {"unix:" + directory.path() + "/w"}}};
  const NodeRun run(one, "worker:0", {"--dir", directory.path(), "--job", directory / "none.json"});
  CAPTURE(run.said);
  CHECK(run.code == 2);
  CHECK(run.Says("none.json"));
}

TEST_CASE("node 0 that is the coordinator refuses a certificate that is every worker's") {
  const TestDirectory directory;
  const std::string certs = directory / "certs";
  REQUIRE(std::system((PARACORD_SOURCE_DIR "/deploy/certs " + certs + " lab worker").c_str()) == 0);
  const json alone = {{"worker", {"127.0.0.1:1"}}};
  const NodeRun run(alone, "worker:0",
                    {"--dir", directory.path(), "--job", directory / "none.json", "--tls-cert",
                     certs + "/worker.crt", "--tls-key", certs + "/worker.key", "--tls-ca",
                     certs + "/ca.crt"});
  CAPTURE(run.said);
  CHECK(run.code == 2);
  CHECK(run.Says("is of spiffe://lab/worker, which is every worker"));
}

TEST_CASE("a second node at an address leaves with 3, and the first trains on") {
  Cluster cluster({.workers = 2, .nodes = true, .batch_ms = 4, .job = {{"steps", 400}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  for (const char* const task : {"worker:0", "worker:1"}) {
    CAPTURE(task);
    const auto first = cluster.TakeOut(task);
    cluster.Start(task);
    CHECK(cluster.at(task).Wait(20000) == 3);
    CHECK(first->running());
    first->Kill();
    cluster.Start(task);
  }
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 400);
}

TEST_CASE(
    "a second node 0 at another address finds the coordinator that leads, and leaves with 3") {
  Cluster cluster({.workers = 2,
                   .nodes = true,
                   .batch_ms = 4,
                   .job = {{"steps", 2000}, {"timeouts", {{"drain_ms", 1000}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  const auto first = cluster.TakeOut("worker:0");
  cluster.Start("worker:0", {}, {"--listen", absl::StrCat("unix:", cluster.root(), "/second")});
  CHECK(cluster.at("worker:0").Wait(30000) == 3);
  CHECK(cluster.Logged("worker:0", "another coordinator leads this job"));
  CHECK(first->running());
  CHECK(first->Wait(60000) == 0);
  CheckCounted(cluster.dir(), 2000);
}

TEST_CASE("a node whose task a second worker takes goes on holding its partitions") {
  Cluster cluster({.workers = 2, .nodes = true, .batch_ms = 4, .job = {{"steps", 1500}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  const auto first = cluster.TakeOut("worker:1");
  cluster.Start("worker:1", {}, {"--listen", absl::StrCat("unix:", cluster.root(), "/second")});
  REQUIRE(
      WaitUntil(20000, [&] { return cluster.Logged("worker:1", "its worker has left with 3"); }));
  CHECK(first->running());
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 1500);
  CHECK(first->Wait(20000) == 3);
  // The second worker computed to the end, and holds no partition.
  CHECK(cluster.at("worker:1").Wait(60000) == 0);
}

TEST_CASE("a worker of a cluster with ps is no node, whatever flags of nodes it is given") {
  Cluster cluster({.job = {{"steps", 200}}});
  for (const char* const task : {"coordinator", "ps:0", "ps:1"}) cluster.Start(task);
  cluster.Start("worker:0", {}, {"--threads", "1", "--job", "/nowhere/job.json"});
  CHECK(cluster.Finish() == 0);
  CHECK_FALSE(cluster.Logged("worker:0", "its ps"));
  CheckCounted(cluster.dir(), 200);
}

TEST_CASE("an evaluator finds the coordinator in node 0 and scores what nodes have trained") {
  Cluster cluster({.workers = 2,
                   .nodes = true,
                   .batch_ms = 2,
                   .job = {{"epochs", 6}, {"evaluate", {{"every_epochs", 2}}}}});
  cluster.StartAll();
  // An evaluator accepts two devices, as workers do, and uses one.
  cluster.Start("evaluator:0", {}, {"--dir", cluster.dir(), "--device", "cpu:2"});
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.at("evaluator:0").Wait(60000) == 0);
  CheckCounted(cluster.dir(), 6 * kBatchesPerEpoch);
}

TEST_CASE("nodes with certificates train, and a worker's certificate leads no job") {
  Cluster cluster(
      {.workers = 3, .nodes = true, .tcp = true, .batch_ms = 2, .job = {{"steps", 600}}});
  const std::string certs = cluster.root() + "/certs";
  const std::string make =
      PARACORD_SOURCE_DIR "/deploy/certs " + certs + " lab worker:0 worker:1 worker:2";
  REQUIRE(std::system(make.c_str()) == 0);
  const auto keys = [&](int index) {
    const std::string name = absl::StrCat(certs, "/worker-", index);
    return std::vector<std::string>{"--tls-cert",  name + ".crt", "--tls-key",
                                    name + ".key", "--tls-ca",    certs + "/ca.crt"};
  };
  for (int i = 0; i < 3; ++i) {
    const std::string task = absl::StrCat("worker:", i);
    std::vector<std::string> arguments = keys(i);
    arguments.insert(arguments.end(), {"--listen", cluster.address(task)});
    cluster.Start(task, {}, arguments);
  }
  REQUIRE(WaitUntil(30000, [&] { return cluster.Logged("worker:2", "joined: session"); }));
  PosixFiles files;
  const auto ask_as = [&](int index, const NodeRights& nodes) {
    const std::vector<std::string> own = keys(index);
    GrpcOptions options;
    const auto loaded = Credentials::Load({.cert = own[1],
                                           .key = own[3],
                                           .ca = own[5],
                                           .token_file = {},
                                           .cluster = {},
                                           .nodes = nodes},
                                          files);
    REQUIRE(loaded.ok());
    options.credentials = *loaded;
    GrpcNetwork network(options);
    const auto link = network.Dial(cluster.address("worker:1"));
    return AwaitProto<PsDescription>(*link, method::kDescribe, DescribeRequest(), 3000).status();
  };
  NodeRights nodes{.ps = {}, .coordinator = true};
  for (int i = 0; i < 3; ++i) nodes.ps.push_back(cluster.address(absl::StrCat("worker:", i)));
  CHECK(ask_as(0, nodes).ok());
  CHECK(absl::IsPermissionDenied(ask_as(2, nodes)));
  std::swap(nodes.ps[1], nodes.ps[2]);
  CHECK_FALSE(ask_as(0, nodes).ok());  // the caller's TF_CONFIG has another worker at the address
  CHECK_FALSE(ask_as(0, {}).ok());     // the caller's TF_CONFIG has no nodes
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 600);
}

}  // namespace
}  // namespace paracord::e2e
