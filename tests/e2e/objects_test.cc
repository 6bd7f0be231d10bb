// Trains a job whose DIR and data are objects in a fake S3 that injects failures.
#include <signal.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <iostream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "objects/all_files.h"
#include "objects/s3_store.h"
#include "storage/checkpoint.h"
#include "tests/objects/s3_server.h"

namespace paracord::e2e {
namespace {

// Puts the S3 address and keys into the environment of this process and its children.
Variables InEnvironment(const S3Server& server) {
  const Variables variables = server.Variables();
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return variables;
}

constexpr const char* kTasks[] = {"ps:0", "ps:1", "coordinator", "worker:0", "worker:1"};

class ObjectCluster : public Cluster {
 public:
  ObjectCluster(const S3Server& server, ClusterOptions options)
      : Cluster([&] {
          options.environment = InEnvironment(server);
          return std::move(options);
        }()),
        objects_(server.path("jobs/one")) {
    for (const char* task : kTasks) GiveDir(task, objects_);
    GiveDir("coordinator:1", objects_);
    AllFiles files;
    nlohmann::json job = nlohmann::json::parse(ReadText(this->job()));
    for (const char* key : {"features", "labels"}) {
      nlohmann::json& path = job["data"]["train"][key];
      const std::string local = PathIn(root(), path.get<std::string>());
      const std::string object = server.path("data/") + local.substr(local.rfind('/') + 1);
      REQUIRE(files.WriteAtomic(object, ReadText(local)) == absl::OkStatus());
      path = object;
    }
    WriteText(this->job(), job.dump());
  }
  const std::string& objects() const { return objects_; }

 private:
  const std::string objects_;
};

TEST_CASE("a job whose DIR and data are objects trains to its end") {
  const S3Server server;
  if (!server.there()) return;
  ObjectCluster cluster(server, {.job = {{"steps", 200}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.WaitAllGone(15000));
  CheckCounted(cluster.objects(), 200);

  const std::string out = server.path("export/model.safetensors");
  Process exported(
      {PARACORD_BIN_DIR "/paracord", "export", "--dir", cluster.objects(), "--out", out}, {},
      cluster.root() + "/export.log");
  CHECK(exported.Wait(20000) == 0);
  AllFiles files;
  CHECK((*files.Open(out))->size() > 3 * kUnits * sizeof(float));
  Process verified(
      {PARACORD_BIN_DIR "/paracord", "checkpoint", "verify", "--dir", cluster.objects()}, {},
      cluster.root() + "/verify.log");
  CHECK(verified.Wait(20000) == 0);
}

// Prints the work done and the failures met, in one line.
void PrintResult(const std::string& what, const S3Server& server, int64_t since_ms) {
  nlohmann::json faults = server.Faults();
  REQUIRE(faults.is_object());
  const auto answered = faults.value("", 0);
  faults.erase("");
  std::string met;
  for (const auto& [fault, count] : faults.items()) {
    absl::StrAppend(&met, met.empty() ? "" : ", ", fault, " ", count.get<int>());
  }
  std::cout << what << "; " << (NowMs() - since_ms) / 1000 << " s; requests: " << answered
            << " answered, " << met << std::endl;
}

TEST_CASE("on an S3 that fails, through kills and a second coordinator, each batch counts once",
          "[.slow]") {
  const int seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  const int64_t since_ms = NowMs();
  const S3Server server(/*share=*/0.03, seed);
  if (!server.there()) return;
  constexpr uint64_t kSteps = 3000;
  ObjectCluster cluster(server, {.batch_ms = 4,
                                 .job = {{"steps", kSteps},
                                         {"checkpoint", {{"every_seconds", 0.3}}},
                                         {"timeouts", {{"ps_ms", 5000}}}}});
  cluster.Start("ps:0", {{"PARACORD_FAILPOINTS", "objects.finish=kill@3"}});
  cluster.Start("ps:1");
  cluster.Start("coordinator", {{"PARACORD_FAILPOINTS", "coordinator.commit.begin=kill@2"}});
  for (const char* worker : {"worker:0", "worker:1"}) cluster.Start(worker);
  std::set<std::string> have_left;
  const auto killed = [&](const char* task) {
    return WaitUntil(60000, [&] {
      for (const auto& [left, exit] : cluster.Supervise()) have_left.insert(left);
      return have_left.contains(task);
    });
  };
  CHECK(killed("coordinator"));
  CHECK(killed("ps:0"));
  REQUIRE(cluster.WaitForBatches(300, 60000));
  // Stops the first coordinator until a second takes over. The first then wakes up in the middle of
  // its work.
  AllFiles files;
  cluster.at("coordinator").Signal(SIGSTOP);
  cluster.Start("coordinator:1");
  REQUIRE(WaitUntil(60000, [&] {
    const auto address = files.ReadWhole(cluster.objects() + "/coordinator.address");
    return address.ok() && address->find("/second") != std::string::npos;
  }));
  cluster.at("coordinator").Signal(SIGCONT);
  CHECK(cluster.at("coordinator").Wait(60000) == 201);
  cluster.at("coordinator:1").Kill();
  cluster.TakeOut("coordinator:1");
  cluster.Start("coordinator");
  REQUIRE(cluster.WaitForBatches(cluster.BatchesDone() + 100, 60000));
  cluster.at("ps:1").Signal(SIGKILL);
  CHECK(cluster.Finish(240000) == 0);
  CheckCounted(cluster.objects(), kSteps);
  PrintResult(absl::StrCat("seed ", seed, ": 2 coordinators, 2 ps killed, 1 coordinator fenced: ",
                           kSteps, " batches, each applied once"),
              server, since_ms);
}

TEST_CASE("of two coordinators that start at once on an S3 that fails one leads", "[.slow]") {
  const int seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  const int64_t since_ms = NowMs();
  const S3Server server(/*share=*/0.03, seed);
  if (!server.there()) return;
  constexpr uint64_t kSteps = 300;
  ObjectCluster cluster(server, {.job = {{"steps", kSteps}}});
  cluster.Start("coordinator");
  cluster.Start("coordinator:1");
  for (const char* ps : {"ps:0", "ps:1"}) cluster.Start(ps);
  for (const char* worker : {"worker:0", "worker:1"}) cluster.Start(worker);
  // A coordinator loses the claim of a generation, or finds the other alive.
  std::string lost;
  REQUIRE(WaitUntil(60000, [&] {
    for (const char* task : {"coordinator", "coordinator:1"}) {
      if (!cluster.at(task).running()) lost = task;
    }
    return !lost.empty();
  }));
  const std::optional<Exit> left = cluster.at(lost).Poll();
  CHECK((left == 201 || left == 3));
  if (lost == "coordinator") {  // no process looks for the address of coordinator:1
    cluster.at("coordinator:1").Kill();
    cluster.TakeOut("coordinator:1");
    cluster.Start("coordinator");
  } else {
    cluster.TakeOut(lost);
  }
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.objects(), kSteps);
  PrintResult(absl::StrCat("seed ", seed, ": two coordinators at once, one left with ", *left, ": ",
                           kSteps, " batches, each applied once"),
              server, since_ms);
}

TEST_CASE("a ps that dies between the parts of an upload leaves none of them", "[.slow]") {
  const int64_t since_ms = NowMs();
  const S3Server server(/*share=*/0.03, 1);
  if (!server.there()) return;
  const auto layer = [](const std::string& kind, const nlohmann::json& config) {
    return nlohmann::json{{"class_name", kind}, {"config", config}};
  };
  // 40 MiB of frozen values, so that a ps uploads its file in more than one part.
  const nlohmann::json layers = {layer("InputLayer", {{"batch_shape", {nullptr, 2}}}),
                                 layer("Embedding", {{"name", "large"},
                                                     {"trainable", false},
                                                     {"input_dim", 1310720},
                                                     {"output_dim", 8},
                                                     {"embeddings_initializer", "zeros"}}),
                                 layer("Flatten", {{"name", "flat"}}),
                                 layer("Dense", {{"name", "count"}, {"units", kUnits}})};
  const nlohmann::json model = {{"class_name", "Sequential"},
                                {"config", {{"name", "model"}, {"layers", layers}}}};
  constexpr uint64_t kSteps = 600;
  ObjectCluster cluster(server, {.batch_ms = 30,
                                 .job = {{"model", model},
                                         {"steps", kSteps},
                                         {"checkpoint", {{"every_seconds", 1}, {"keep", 1}}},
                                         {"timeouts", {{"ps_ms", 5000}}}}});
  cluster.Start("ps:0", {{"PARACORD_FAILPOINTS", "objects.part=kill@3"}});
  cluster.Start("ps:1");
  cluster.Start("coordinator");
  for (const char* worker : {"worker:0", "worker:1"}) cluster.Start(worker);
  std::set<std::string> have_left;
  CHECK(WaitUntil(60000, [&] {
    for (const auto& [left, exit] : cluster.Supervise()) have_left.insert(left);
    return have_left.contains("ps:0");
  }));
  S3Store store([](const std::string& name) {
    const char* value = getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  });
  const auto unfinished = [&] {
    absl::StatusOr<std::vector<OpenUpload>> uploads = absl::UnavailableError("");
    WaitUntil(30000, [&] { return (uploads = store.Uploads(cluster.objects() + "/")).ok(); });
    REQUIRE(uploads.ok());
    return uploads->size();
  };
  CHECK(unfinished() > 0);
  CHECK(cluster.Finish(240000) == 0);
  CHECK(unfinished() == 0);
  AllFiles files;
  const std::string checkpoint = NewestCheckpoint(cluster.objects());
  CHECK(VerifyCheckpoint(files, checkpoint) == absl::OkStatus());
  const auto manifest = ReadManifest(files, checkpoint);
  REQUIRE(manifest.ok());
  for (const ManifestPartition& partition : manifest->partitions) {
    const bool trained = manifest->variables[partition.spec.variable()].trainable();
    if (trained) CHECK(partition.applied == kSteps);
  }
  PrintResult(absl::StrCat("a ps killed between two parts: no upload is left, ", kSteps,
                           " batches, each applied once"),
              server, since_ms);
}

}  // namespace
}  // namespace paracord::e2e
