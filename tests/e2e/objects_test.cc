// A whole job whose DIR and data are objects, behind an S3 that fails now and then.
#include <signal.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"
#include "tests/objects/s3_server.h"

namespace paracord::e2e {
namespace {

// The server's address and keys in the environment of this process and of those that it starts.
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

TEST_CASE("on an S3 that fails, through kills and a second coordinator, each batch counts once",
          "[.slow]") {
  const int seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
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
  // The first is stopped, another takes over, and the first wakes up in the middle of what it did.
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
}

}  // namespace
}  // namespace paracord::e2e
