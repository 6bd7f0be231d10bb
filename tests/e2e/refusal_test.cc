// A mistake of a user, a bad file and a foreign job are reported by name, with the right exit code.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/train.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kRefusalSteps = 400;

TEST_CASE("a job that resumes with another batch size is refused, naming the key") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kRefusalSteps}}});
  cluster.StartAll();
  REQUIRE(WaitUntil(20000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  cluster.KillAll();
  cluster.WriteJob({{"steps", kRefusalSteps}, {"batch", 32}});
  cluster.Start("coordinator");
  CHECK(cluster.at("coordinator").Wait(10000) == 2);
  CHECK(cluster.Logged("coordinator",
                       "batch: was 16 and is now 32, but cannot change on resume; "
                       "give it as it was, or begin anew: "));
  cluster.WriteJob({{"steps", kRefusalSteps + 100}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kRefusalSteps + 100);
}

TEST_CASE("train names data that are missing before it starts a process or makes DIR") {
  Train train;
  const bool without_ps = GENERATE(false, true);
  std::filesystem::remove(train.root() + "/train-y.npy");
  const auto command = train.Start({"--ps", without_ps ? "0" : "1"});
  CHECK(command->Wait(20000) == 2);
  CHECK(train.Said("paracord train: data.train.labels: there is no file " + train.root() +
                   "/train-y.npy: make or download the data first, or correct the path\n"));
  CHECK_FALSE(std::filesystem::exists(train.dir()));
  CHECK(train.SocketDirs() == 0);
}

TEST_CASE("train names a key that no worker could use before it starts a process or makes DIR") {
  Train train;
  const auto [setting, said] = GENERATE(table<std::string, std::string>(
      {{R"(stages=["nowhere"])", R"(stages: the model computes no layer "nowhere")"},
       {R"(tables={"nowhere": {"update": "lazy"}})", "tables.nowhere: the model has no Embedding"},
       {R"(optimizer={"name": "adam", "beta_3": 1})", "beta_3"},
       {"data.train.labels=/tmp", "data.train.labels: /tmp is a folder"},
       {"data.test.features=/dev/null", "data.test.features: /dev/null is not a regular file"}}));
  CAPTURE(setting);
  std::vector<std::string> words = {"--set", setting};
  if (setting.starts_with("stages")) {
    words.insert(words.end(), {"--set", "accumulate=4", "--device", "cpu:2"});
  }
  const auto command = train.Start(words);
  CHECK(command->Wait(60000) == 2);
  INFO(train.log());
  CHECK(train.Said(said));
  CHECK_FALSE(std::filesystem::exists(train.dir()));
  CHECK(train.SocketDirs() == 0);
}

TEST_CASE("train of a job that is done says so although its data are gone") {
  Train train(/*steps=*/50);
  CHECK(train.Start({}, "")->Wait(120000) == 0);
  std::filesystem::remove(train.root() + "/train-y.npy");
  CHECK(train.Start({}, "")->Wait(60000) == 0);
  CHECK(train.Said("nothing to do: the job was done before"));
  CHECK(train.Start({"--set", "steps=60"}, "")->Wait(60000) == 2);
  CHECK(train.Said("data.train.labels: there is no file"));
}

TEST_CASE("a job that has changed goes on as it was with --keep-job") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kRefusalSteps}}});
  cluster.StartAll();
  REQUIRE(WaitUntil(20000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  const auto before = cluster.TakeOut("coordinator");
  before->Kill();
  cluster.WriteJob({{"steps", kRefusalSteps}, {"batch", 32}});
  cluster.Start("coordinator", {}, {"--keep-job"});
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Logged("coordinator", "are not taken: batch: was 16 and is now 32"));
  CheckCounted(cluster.dir(), kRefusalSteps);
}

TEST_CASE("a job that is done takes more steps") {
  Cluster cluster({.job = {{"steps", kRefusalSteps}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kRefusalSteps);
  REQUIRE(cluster.WaitAllGone(10000));
  cluster.Start("coordinator");  // the job is complete
  CHECK(cluster.at("coordinator").Wait(5000) == 0);
  cluster.WriteJob({{"steps", 2 * kRefusalSteps}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 2 * kRefusalSteps);
}

TEST_CASE("every process that starts after the job is done leaves with 0") {
  // A ps or a worker waits start_s for a coordinator that might extend the job.
  Cluster cluster({.job = {{"steps", 50}, {"timeouts", {{"start_s", 5}}}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  REQUIRE(cluster.WaitAllGone(10000));
  cluster.StartAll();
  CHECK(cluster.WaitAllGone(15000));
  for (const char* task : {"coordinator", "ps:0", "ps:1", "worker:0", "worker:1"}) {
    CAPTURE(task);
    CHECK(cluster.at(task).Poll() == 0);
  }
}

TEST_CASE("a data file that cannot be read ends the job with 2 and names file and place") {
  const int kind = GENERATE(0, 1, 2);
  CAPTURE(kind);
  Cluster cluster({.job = {{"steps", kRefusalSteps}}});
  const std::string path = cluster.root() + "/train-y.npy";
  if (kind == 0) WriteText(path, "these are no numbers");
  if (kind == 1) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
  }
  if (kind == 2) std::filesystem::remove(path);
  cluster.StartAll();
  CHECK(cluster.Finish(20000) == 2);
  CHECK(cluster.Logged("coordinator", "train-y.npy"));
  CHECK(cluster.Summary().at("reason").get<std::string>().find("train-y.npy") != std::string::npos);
  CHECK(cluster.WaitAllGone(5000));
  for (const char* task : {"ps:0", "ps:1", "worker:0", "worker:1"}) {
    CAPTURE(task);
    CHECK(cluster.at(task).Poll() == 2);
  }
}

TEST_CASE("a batch with NaN in its data is rejected everywhere, and counted") {
  const uint32_t workers = GENERATE(1u, 2u);
  CAPTURE(workers);
  Cluster cluster(
      {.workers = workers,
       .job = {{"epochs", 3}, {"failures", {{"per_batch", 3}, {"rejected_max", 0.05}}}}});
  SpoilRecord(cluster.root(), 200);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  // Each epoch rejects the batch that contains the spoilt record.
  CheckCounted(cluster.dir(), 3 * (kBatchesPerEpoch - 1), 3);
  CHECK(cluster.Logged("coordinator", "rejected: batch"));
  const std::string reason = cluster.Summary().at("reason").get<std::string>();
  INFO(reason);
  CHECK(reason.find("3 of 114 were rejected") != std::string::npos);
  CHECK(reason.find("row 200: target is nan") != std::string::npos);
}

TEST_CASE("a batch that kills every worker that computes it is rejected, and no other") {
  // A batch may kill one worker while another lives. Deaths of the last worker do not count.
  Cluster cluster(
      {.workers = 2,
       .job = {{"epochs", 2}, {"failures", {{"deaths_per_batch", 1}, {"rejected_max", 0.05}}}}});
  // Inherited by all processes started below.
  setenv("PARACORD_FAILPOINTS", "worker.batch.1.1.2=kill", 1);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  unsetenv("PARACORD_FAILPOINTS");
  CheckCounted(cluster.dir(), 2 * kBatchesPerEpoch - 1, 1);
  CHECK(cluster.Logged("coordinator", "rejected: batch 2 of split 1 of epoch 2"));
  CHECK(cluster.Summary().at("recoveries").at("worker") >= 1);
}

TEST_CASE("with policy fail a NaN ends the job with 6") {
  Cluster cluster({.job = {{"epochs", 3}, {"failures", {{"policy", "fail"}, {"per_batch", 3}}}}});
  SpoilRecord(cluster.root(), 200);
  cluster.StartAll();
  CHECK(cluster.Finish() == 6);
  CHECK(cluster.Summary().at("status") == "failed");
  CHECK(cluster.Summary().at("reason").get<std::string>().find("failures.policy") !=
        std::string::npos);
  CHECK(cluster.WaitAllGone(5000));
}

TEST_CASE("too many rejected batches end the job with 6") {
  // 1 % of 38 batches is none
  Cluster cluster({.job = {{"epochs", 3}, {"failures", {{"per_batch", 3}}}}});
  SpoilRecord(cluster.root(), 200);
  cluster.StartAll();
  CHECK(cluster.Finish() == 6);
  CHECK(cluster.Logged("coordinator", "failures.rejected_max"));
}

TEST_CASE("a ps that is missing at the start is named when the deadline is over") {
  Cluster cluster({.job = {{"steps", kRefusalSteps}, {"timeouts", {{"start_s", 2}}}}});
  cluster.Start("ps:0");
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  constexpr Exit kPeerLost = 202;
  CHECK(cluster.at("coordinator").Wait(10000) == kPeerLost);
  const std::string reason = cluster.Summary().at("reason");
  INFO(reason);
  CHECK(reason.find("missing ps:1 (") != std::string::npos);
  CHECK(reason.find(cluster.address("ps:1")) != std::string::npos);
  CHECK(reason.find("ps:0") == std::string::npos);
  CHECK(reason.find("timeouts.start_s") != std::string::npos);
}

TEST_CASE("an address that is in use ends a ps and a coordinator with 3") {
  Cluster cluster({.tcp = GENERATE(false, true), .job = {{"steps", kRefusalSteps}}});
  for (const char* task : {"ps:0", "ps:1", "coordinator"}) cluster.Start(task);
  REQUIRE(WaitUntil(10000, [&] {
    return cluster.Logged("ps:0", "listens at") && cluster.Logged("coordinator", "listens at");
  }));
  Cluster other({.job = {{"steps", kRefusalSteps}}});
  other.Start("ps:0", {}, {"--listen=" + cluster.address("ps:0")});
  other.Start("coordinator", {}, {"--listen=" + cluster.address("coordinator")});
  constexpr Exit kInUse = 3;
  CHECK(other.at("ps:0").Wait(5000) == kInUse);
  CHECK(other.at("coordinator").Wait(5000) == kInUse);
  CHECK(other.Logged("ps:0", cluster.address("ps:0")));
  for (const char* worker : {"worker:0", "worker:1"}) cluster.Start(worker);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kRefusalSteps);
}

TEST_CASE("a coordinator that listens elsewhere than the cluster says warns of it") {
  Cluster cluster({.tcp = true, .job = {{"steps", kRefusalSteps}}});
  const std::string told = cluster.address("coordinator"), other = FreeTcpAddress();
  const std::string port = told.substr(told.rfind(':'));
  // All interfaces include the address in use.
  for (const std::string& listen : {"0.0.0.0" + port, other}) {
    CAPTURE(listen);
    cluster.Start("coordinator", {}, {"--listen", listen, "--insecure"});
    REQUIRE(WaitUntil(5000, [&] { return cluster.Logged("coordinator", "listens at " + listen); }));
    cluster.at("coordinator").Signal(SIGTERM);
    CHECK(cluster.at("coordinator").Wait(5000) == 143);
    const bool warned =
        cluster.Logged("coordinator", "the cluster says that the coordinator is at " + told +
                                          " (key cluster.chief");
    CHECK(warned == (listen == other));
  }
  CHECK(cluster.Logged("coordinator", "start them with a cluster that says " + other));
}

TEST_CASE("a ps that listens elsewhere than the cluster says warns of it") {
  Cluster cluster({.tcp = true, .job = {{"steps", kRefusalSteps}}});
  const std::string listen = FreeTcpAddress();
  cluster.Start("ps:0", {}, {"--listen", listen});
  CHECK(WaitUntil(5000, [&] { return cluster.Logged("ps:0", "a cluster that says " + listen); }));
  CHECK(cluster.Logged(
      "ps:0", "the cluster says that ps:0 is at " + cluster.address("ps:0") + " (key cluster.ps)"));
}

TEST_CASE(
    "a ps or coordinator whose own name does not resolve yet waits for it, and can be stopped") {
  Cluster cluster({.tcp = true, .job = {{"steps", kRefusalSteps}}});
  for (const char* task : {"ps:0", "coordinator"}) {
    CAPTURE(task);
    cluster.Start(task, {}, {"--listen", "host.invalid:7401"});
    REQUIRE(WaitUntil(5000, [&] {
      return cluster.Logged(task, "the name host.invalid does not resolve") &&
             cluster.Logged(task, "waits for its name");
    }));
    cluster.at(task).Signal(SIGTERM);
    CHECK(cluster.at(task).Wait(5000) == 143);
  }
}

TEST_CASE("an address or a DIR that cannot be used ends a ps and a coordinator at once with 2") {
  const int kind = GENERATE(0, 1, 2);
  CAPTURE(kind);
  Cluster cluster({.job = {{"steps", kRefusalSteps}}});
  std::vector<std::string> arguments;
  if (kind == 0) arguments = {"--listen", "unix:" + cluster.root() + "/none/socket"};
  if (kind == 1) arguments = {"--listen", "192.0.2.1:2222"};
  if (kind == 2) {  // puts a file in place of the directory
    std::filesystem::remove_all(cluster.dir());
    WriteText(cluster.dir(), "");
  }
  for (const char* task : {"ps:0", "coordinator"}) {
    CAPTURE(task);
    cluster.Start(task, {}, arguments);
    CHECK(cluster.at(task).Wait(5000) == 2);
    CHECK(cluster.Logged(task, kind == 2 ? cluster.dir() : arguments[1]));
  }
}

TEST_CASE("a job that does not fit in the memory of a ps ends with 2 and says what it needs") {
  const auto layer = [](const std::string& kind, const nlohmann::json& config) {
    return nlohmann::json{{"class_name", kind}, {"config", config}};
  };
  const nlohmann::json layers = {
      layer("InputLayer", {{"batch_shape", {nullptr, 2}}}),
      layer("Embedding", {{"name", "large"}, {"input_dim", 40000}, {"output_dim", 1000}}),
      layer("Flatten", {{"name", "flat"}}), layer("Dense", {{"name", "count"}, {"units", kUnits}})};
  Cluster cluster(
      {.ps = 1,
       .workers = 1,
       .job = {{"steps", 100},
               {"model",
                {{"class_name", "Sequential"}, {"config", {{"name", "m"}, {"layers", layers}}}}}}});
  cluster.Start("ps:0", {}, {"--memory-limit=64MiB", "--listen", cluster.address("ps:0")});
  CHECK(cluster.at("ps:0").Wait(5000) == 2);
  CHECK(cluster.Logged("ps:0", "--memory-limit: must be at least 128.0 MiB"));
  cluster.Start("ps:0", {}, {"--memory-limit=200MiB", "--listen", cluster.address("ps:0")});
  cluster.Start("coordinator");
  cluster.Start("worker:0");
  CHECK(cluster.Finish(20000) == 2);
  const std::string reason = cluster.Summary().at("reason").get<std::string>();
  INFO(reason);
  CHECK(reason.find("ps:0: ") == 0);
  CHECK(reason.find(": variables and slots take ") != std::string::npos);
  CHECK(reason.find("and --memory-limit is 200.0 MiB: give this ps more memory") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord::e2e
