// Storage that fails, and damaged checkpoints.
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kStorageSteps = 1000;

std::string ProblemOf(Cluster& cluster) {
  const nlohmann::json status = cluster.Status();
  return status.is_object() ? status.at("checkpoint").at("problem").get<std::string>() : "";
}

TEST_CASE("a ps that cannot write fails the round, not the training") {
  Cluster cluster(
      {.batch_ms = 2, .job = {{"steps", kStorageSteps}, {"checkpoint", {{"every_seconds", 0.2}}}}});
  cluster.Start("ps:0");
  // Only the second snapshot fails.
  cluster.Start("ps:1", {{"PARACORD_FAILPOINTS", "ps.snapshot.half=error@2"}});
  cluster.Start("coordinator");
  for (const char* worker : {"worker:0", "worker:1"}) cluster.Start(worker);
  REQUIRE(WaitUntil(10000, [&] { return !ProblemOf(cluster).empty(); }));
  CHECK(ProblemOf(cluster).find("ps:1") != std::string::npos);
  const std::string kept = NewestCheckpoint(cluster.dir());
  PosixFiles files;
  CHECK(VerifyCheckpoint(files, kept).ok());
  CHECK(cluster.WaitForBatches(cluster.BatchesDone() + 50));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kStorageSteps);
}

// Mounts a small tmpfs as DIR, and unmounts it at the end.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const std::string& options)
      : path_(path), mounted_(mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0) {}
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool ReadOnly(bool yes) {
    return mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | (yes ? MS_RDONLY : 0), nullptr) == 0;
  }

 private:
  const std::string path_;
  const bool mounted_;
};

TEST_CASE("training goes on while the disk is full or read-only, and says so") {
  const bool full = GENERATE(true, false);
  CAPTURE(full);
  Cluster cluster(
      {.batch_ms = 2, .job = {{"steps", 4000}, {"checkpoint", {{"every_seconds", 0.2}}}}});
  SmallDisk disk(cluster.dir(), "size=2m");
  if (!disk.mounted()) {
    WARN("not checked: file systems cannot be mounted here");
    return;
  }
  cluster.StartAll();
  REQUIRE(WaitUntil(10000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  const std::string ballast = cluster.dir() + "/ballast";
  if (full) {
    std::ofstream out(ballast);
    for (int i = 0; i < 4096 && out.good(); ++i) out << std::string(1024, 'x') << std::flush;
  } else {
    REQUIRE(disk.ReadOnly(true));
  }
  REQUIRE(WaitUntil(15000, [&] { return !ProblemOf(cluster).empty(); }));
  INFO(ProblemOf(cluster));
  CHECK(ProblemOf(cluster).find(full ? "No space" : "Read-only") != std::string::npos);
  const std::string kept = NewestCheckpoint(cluster.dir());
  PosixFiles files;
  CHECK(VerifyCheckpoint(files, kept).ok());
  CHECK(cluster.WaitForBatches(cluster.BatchesDone() + 50));
  if (full) {  // a new coordinator cannot claim its generation
    cluster.at("coordinator").Kill();
    cluster.Start("coordinator");
    CHECK(WaitUntil(15000, [&] { return cluster.Logged("coordinator", "waits for the storage"); }));
    fs::remove(ballast);
  } else {
    REQUIRE(disk.ReadOnly(false));
  }
  CHECK(WaitUntil(15000, [&] { return NewestCheckpoint(cluster.dir()) != kept; }));
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 4000);
}

TEST_CASE("a disk that fills up before the last checkpoint makes the job wait, and its end come") {
  Cluster cluster({.job = {{"steps", 200}, {"checkpoint", {{"every_seconds", 0}}}}});
  SmallDisk disk(cluster.dir(), "size=2m");
  if (!disk.mounted()) {
    WARN("not checked: file systems cannot be mounted here");
    return;
  }
  for (const char* task : {"ps:0", "ps:1", "coordinator"}) cluster.Start(task);
  const std::string ballast = cluster.dir() + "/ballast";
  REQUIRE(WaitUntil(10000, [&] { return cluster.Status().is_object(); }));
  {
    std::ofstream out(ballast);
    for (int i = 0; i < 4096 && out.good(); ++i) out << std::string(1024, 'x') << std::flush;
  }
  fs::resize_file(ballast, fs::file_size(ballast) - (64 << 10));  // room for job.state
  cluster.Start("worker:0");
  REQUIRE(WaitUntil(20000, [&] { return !ProblemOf(cluster).empty(); }));
  const nlohmann::json status = cluster.Status();
  CHECK(status.at("batches_done") == status.at("batches"));
  CHECK(ProblemOf(cluster).find("No space") != std::string::npos);
  CHECK_FALSE(fs::exists(cluster.dir() + "/summary.json"));
  fs::remove(ballast);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 200);
}

void FlipByte(const std::string& path, uint64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
  const char flipped = static_cast<char>(file.get() ^ 0x40);
  file.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  file.put(flipped);
  REQUIRE(file.flush().good());
}

std::vector<std::string> Checkpoints(const Cluster& cluster) {
  PosixFiles files;
  std::vector<std::string> paths;
  const auto names = ListCheckpoints(files, cluster.dir() + "/checkpoints");
  REQUIRE(names.ok());
  for (const CheckpointName& name : *names) paths.push_back(name.ToString());
  return paths;
}

void TrainAndKill(Cluster& cluster) {
  cluster.StartAll();
  REQUIRE(WaitUntil(20000, [&] { return Checkpoints(cluster).size() >= 2; }));
  cluster.KillAll();
}

TEST_CASE("a damaged checkpoint is refused by name and the one before it is used") {
  const std::string file = GENERATE("ps-00000-of-00002.safetensors", "MANIFEST.json");
  CAPTURE(file);
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kStorageSteps}}});
  TrainAndKill(cluster);
  const std::vector<std::string> names = Checkpoints(cluster);
  FlipByte(absl::StrCat(cluster.dir(), "/checkpoints/", names[0], "/", file), 100);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Logged("coordinator", "checkpoint " + names[0] + " is refused"));
  CHECK(cluster.Logged("coordinator", "from " + names[1]));
  CheckCounted(cluster.dir(), kStorageSteps);
}

TEST_CASE("the last checkpoint of a job that is done is made again where it is damaged") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kStorageSteps}}});
  cluster.StartAll();
  REQUIRE(cluster.Finish() == 0);
  REQUIRE(cluster.WaitAllGone(5000));
  const std::vector<std::string> names = Checkpoints(cluster);
  REQUIRE(names.size() >= 2);
  FlipByte(absl::StrCat(cluster.dir(), "/checkpoints/", names[0], "/ps-00000-of-00002.safetensors"),
           100);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CHECK(cluster.Logged("coordinator", "checkpoint " + names[0] + " is refused"));
  CHECK(cluster.Logged("coordinator", "from checkpoint " + names[1]));
  CheckCounted(cluster.dir(), kStorageSteps);
  PosixFiles files;
  const std::vector<std::string> now = Checkpoints(cluster);
  CHECK(now[0] != names[0]);
  CHECK(JobIsComplete(files, cluster.dir()));
  CHECK(VerifyCheckpoint(files, absl::StrCat(cluster.dir(), "/checkpoints/", now[0])).ok());
}

TEST_CASE("without a sound checkpoint the job ends with 5 and names the damaged ones") {
  const std::string file = GENERATE("ps-00000-of-00002.safetensors", "MANIFEST.json");
  CAPTURE(file);
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kStorageSteps}}});
  TrainAndKill(cluster);
  const std::vector<std::string> names = Checkpoints(cluster);
  for (const std::string& name : names) {
    FlipByte(absl::StrCat(cluster.dir(), "/checkpoints/", name, "/", file), 100);
  }
  cluster.StartAll();
  CHECK(cluster.Finish(20000) == 5);
  for (const std::string& name : names) CHECK(cluster.Logged("coordinator", name));
  CHECK(cluster.Summary().at("status") == "failed");
  CHECK(cluster.WaitAllGone(5000));
  CHECK(Checkpoints(cluster) == names);  // no checkpoint was removed
}

TEST_CASE("a job whose checkpoints are gone ends with 5 until they are back") {
  Cluster cluster({.batch_ms = 4, .job = {{"steps", kStorageSteps}}});
  TrainAndKill(cluster);
  const std::string folder = cluster.dir() + "/checkpoints";
  fs::rename(folder, folder + "-elsewhere");
  cluster.StartAll();
  CHECK(cluster.Finish(20000) == 5);
  const std::string reason = cluster.Summary().at("reason");
  INFO(reason);
  CHECK(reason.find(folder + " holds none") != std::string::npos);
  CHECK(reason.find("job.state-*") != std::string::npos);
  REQUIRE(cluster.WaitAllGone(5000));
  fs::remove_all(folder);
  fs::rename(folder + "-elsewhere", folder);
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), kStorageSteps);
}

TEST_CASE("where each host has a DIR of its own the job ends with a line that names them") {
  Cluster cluster({.ps = 1, .workers = 1, .job = {{"steps", 100}, {"timeouts", {{"start_s", 3}}}}});
  cluster.GiveDir("ps:0", cluster.root() + "/of ps");
  cluster.GiveDir("worker:0", cluster.root() + "/of worker");
  cluster.StartAll();
  CHECK(cluster.at("coordinator").Wait(20000) == 2);
  CHECK(cluster.Logged("coordinator", cluster.root() + "/of ps on host "));
  CHECK(cluster.Logged("coordinator", "written into the coordinator's --dir, " + cluster.dir()));
  CHECK(cluster.Logged("ps:0", "it is not the same directory"));
  CHECK(cluster.at("ps:0").Wait(10000) == 2);
}

TEST_CASE("a worker with a DIR of its own is told so and takes part") {
  Cluster cluster({.ps = 1, .workers = 1, .job = {{"steps", 100}}});
  cluster.GiveDir("worker:0", cluster.root() + "/of worker");
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 100);
  CHECK(cluster.Logged("worker:0", "--dir is not the same directory as the coordinator's: "));
}

TEST_CASE("a job runs to its end on storage that syncs no directory and knows no locks") {
  TestDirectory temp;
  WriteCountingJob(temp.path(), {{"steps", 100}, {"checkpoint", {{"every_seconds", 0.2}}}});
  const Variables odd = {{"ODD_STORAGE", "sync,locks"},
                         {"LD_PRELOAD", PARACORD_BIN_DIR "/libodd_storage.so"},
                         {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                         {"TMPDIR", temp.path()}};
  const std::string dir = temp / "dir", log = temp / "log";
  Process train({PARACORD_BIN_DIR "/paracord", "train", temp / "job.json", "--dir", dir}, odd, log);
  CHECK(train.Wait(60000) == 0);
  CheckCounted(dir, 100);
  for (const std::string& said :
       {"the file system of " + dir + "/lock has no locks", std::string(" cannot sync it (")}) {
    CAPTURE(said);
    CHECK((ReadText(log) + ReadText(dir + "/logs/coordinator-0.log")).find(said) !=
          std::string::npos);
  }
}

TEST_CASE("a coordinator waits for a share that is stale, or denied, when it starts") {
  const bool stale = GENERATE(true, false);
  CAPTURE(stale);
  Cluster cluster({.job = {{"steps", 100}}});
  const std::string late = cluster.root() + "/late", well = cluster.root() + "/well";
  const std::vector<std::string> others = {"ps:0", "ps:1", "worker:0", "worker:1"};
  for (const std::string& task : others) cluster.GiveDir(task, late);
  cluster.GiveDir("coordinator", late);
  cluster.Start("coordinator", {{"ODD_STORAGE", stale ? "stale" : "denied"},
                                {"ODD_STORAGE_UNTIL", well},
                                {"LD_PRELOAD", PARACORD_BIN_DIR "/libodd_storage.so"},
                                {"ASAN_OPTIONS", "verify_asan_link_order=0"}});
  CHECK(WaitUntil(30000, [&] { return cluster.Logged("coordinator", "waits for the storage"); }));
  CHECK(cluster.Logged("coordinator", stale ? "Stale file handle" : "Permission denied"));
  CHECK(cluster.Logged("coordinator", late));
  CHECK_FALSE(fs::exists(late));
  CHECK_FALSE(cluster.at("coordinator").Poll().has_value());
  WriteText(well, "");
  for (const std::string& task : others) cluster.Start(task);
  CHECK(cluster.Finish() == 0);
  CheckCounted(late, 100);
}

}  // namespace
}  // namespace paracord::e2e
