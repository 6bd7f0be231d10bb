// Tests a DIR that is locked, emptied, or in use.
#include "cli/job_dir.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/answering.h"
#include "common/json_text.h"
#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
#include "net/grpc/network.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A job in generation 4 whose coordinator answers at its address.
struct Directory {
  explicit Directory(const nlohmann::json& patch) : answering(Status(patch)) {
    JobState state;
    state.run_id = "run";
    state.plan.set_records(1);
    state.plan.set_batch(1);
    state.plan.set_split_batches(1);
    Write("generation-3", "");
    Write("generation-4", "");
    Write("job.state-4", JobStateToText(state));
    Write("checkpoints-of-mine", "not the job's");
    Write("coordinator.address", address() + "\n");
    REQUIRE(files.MakeDirectories(directory / "checkpoints/step-1-g4-r1").ok());
    REQUIRE(files.MakeDirectories(directory / "compiled").ok());
    REQUIRE(files.MakeDirectories(directory / "index").ok());
    Write("compiled/module-1.kept", "code");
    Write("index/csv-1.kept", "places");
    auto listening = network.Listen(address(), answering);
    REQUIRE(listening.ok());
    listener = *std::move(listening);
  }
  static std::string Status(const nlohmann::json& patch) {
    nlohmann::json status = {{"phase", "training"}, {"generation", 4}, {"run_id", "run"}};
    status.merge_patch(patch);
    return TextOf(status);
  }
  std::string address() const { return "unix:" + directory / "coordinator"; }
  void Write(const std::string& name, const std::string& text) {
    REQUIRE(files.WriteAtomic(directory / name, text).ok());
  }
  absl::Status Begin() { return BeginAnew(files, network, directory.path()); }
  bool Has(const std::string& name) const { return std::filesystem::exists(directory / name); }

  TestDirectory directory;
  PosixFiles files;
  GrpcNetwork network;
  Answering answering;
  std::unique_ptr<Listener> listener;
};

TEST_CASE("a directory whose job a coordinator leads is not emptied") {
  // DIR may have nothing but the coordinator's address and its claim.
  const bool no_state = GENERATE(false, true);
  Directory d(nlohmann::json::object());
  if (no_state) REQUIRE(d.files.RemoveTree(d.directory / "job.state-4").ok());
  const absl::Status begun = d.Begin();
  CHECK(absl::IsAlreadyExists(begun));
  const std::string message(begun.message());
  INFO(message);
  CHECK(message.find("another coordinator leads the job in " + d.directory.path() + " (at " +
                     d.address()) == 0);
  for (const char* name : {"coordinator.address", "checkpoints", "generation-3", "generation-4"}) {
    CAPTURE(name);
    CHECK(d.Has(name));
  }
}

TEST_CASE("a directory that nobody leads is emptied, and its next generation counts on") {
  const nlohmann::json other =
      GENERATE(nlohmann::json{{"phase", "ended"}}, nlohmann::json{{"run_id", "another job's"}},
               nlohmann::json{{"generation", 2}}, nlohmann::json());
  CAPTURE(TextOf(other));
  Directory d(other);
  if (other.is_null()) d.listener.reset();
  const absl::Status begun = d.Begin();
  INFO(std::string(begun.message()));
  REQUIRE(begun.ok());
  CHECK(d.Has("checkpoints-of-mine"));
  for (const char* name :
       {"coordinator.address", "checkpoints", "job.state-4", "generation-4", "compiled", "index"}) {
    CAPTURE(name);
    CHECK_FALSE(d.Has(name));
  }
  // The coordinator with claim 4 is no longer the newest.
  CHECK(absl::IsAborted(CheckNewestGeneration(d.files, d.directory.path(), 4)));
  REQUIRE(d.Begin().ok());
  CHECK(NewestGeneration(d.files, d.directory.path()).value_or(0) == 6);
}

TEST_CASE("a process that answers, but not like a coordinator, leads no job") {
  Directory d({{"phase", 7}, {"generation", "x"}});
  CHECK(d.Begin().ok());
}

// A full disk: files can be created, but no bytes written.
class FullFiles : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override {
    REQUIRE(PosixFiles::Create(path).ok());
    return std::make_unique<FullFile>();
  }

 private:
  class FullFile : public WriteFile {
   public:
    absl::Status Append(std::string_view) override { return absl::OkStatus(); }
    absl::Status Sync() override { return absl::ResourceExhaustedError("No space left"); }
  };
};

TEST_CASE("a directory is one train's, until that is gone, and holds no more than its lock") {
  const TestDirectory directory;
  PosixFiles files;
  const absl::StatusOr<int> first = TakeDir(files, directory.path());
  REQUIRE(first.ok());
  const absl::StatusOr<int> second = TakeDir(files, directory.path());
  CHECK(absl::IsAlreadyExists(second.status()));
  close(*first);
  const absl::StatusOr<int> third = TakeDir(files, directory.path());
  REQUIRE(third.ok());
  close(*third);
  CHECK(*files.List(directory.path()) == std::vector<std::string>{"lock"});
}

TEST_CASE(
    "a directory that cannot be written is named with the error, and is not said to be in use") {
  const TestDirectory directory;
  PosixFiles files;
  FullFiles full;
  const absl::StatusOr<int> in_full = TakeDir(full, directory.path());
  CHECK(in_full.status() == absl::ResourceExhaustedError("--dir " + directory.path() +
                                                         " cannot be written: No space left"));
  CHECK(*files.List(directory.path()) == std::vector<std::string>{"lock"});
  const absl::StatusOr<int> later = TakeDir(files, directory.path());
  REQUIRE(later.ok());  // the lock was released
  close(*later);
  REQUIRE(files.RemoveTree(directory / "lock").ok());
  REQUIRE(files.MakeDirectories(directory / "lock").ok());  // even root cannot open it as a file
  const absl::StatusOr<int> denied = TakeDir(files, directory.path());
  const std::string message(denied.status().message());
  INFO(message);
  CHECK(message.starts_with("--dir " + directory.path() + " cannot be written: cannot write " +
                            directory.path() + "/lock: "));
  CHECK_FALSE(absl::IsAlreadyExists(denied.status()));
}

TEST_CASE("a directory that is removed, moved or taken by somebody else is not held any more") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string dir = directory / "d";
  const auto take = [&] {
    REQUIRE(files.MakeDirectories(dir).ok());
    const absl::StatusOr<int> lock = TakeDir(files, dir);
    REQUIRE(lock.ok());
    CHECK(HoldsDir(*lock, dir));
    return *lock;
  };
  const int first = take();
  REQUIRE(files.RemoveTree(dir).ok());
  CHECK_FALSE(HoldsDir(first, dir));
  const int second = take();
  CHECK_FALSE(HoldsDir(first, dir));
  std::filesystem::rename(dir, dir + "-elsewhere");
  CHECK_FALSE(HoldsDir(second, dir));
  std::filesystem::rename(dir + "-elsewhere", dir);
  CHECK(HoldsDir(second, dir));
  close(first);
  close(second);
}

TEST_CASE("nothing is claimed in a directory without a job") {
  const TestDirectory directory;
  PosixFiles files;
  GrpcNetwork network;
  REQUIRE(BeginAnew(files, network, directory.path()).ok());
  CHECK(files.List(directory.path())->empty());
}

TEST_CASE("a directory where no job ran keeps what is in it, and its checkpoints are refused") {
  const TestDirectory directory;
  PosixFiles files;
  GrpcNetwork network;
  directory.Write("summary.json", "mine");
  REQUIRE(files.MakeDirectories(directory / "logs/mine").ok());
  REQUIRE(files.MakeDirectories(directory / "checkpoints").ok());
  CHECK(BeginAnew(files, network, directory.path()).ok());
  REQUIRE(files.MakeDirectories(directory / "checkpoints/best").ok());
  const absl::Status refused = BeginAnew(files, network, directory.path());
  INFO(refused.message());
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(std::string(refused.message())
            .starts_with(directory / "checkpoints" + " is there, but no job ran in "));
  for (const char* mine : {"summary.json", "logs/mine", "checkpoints/best"}) {
    CHECK(std::filesystem::exists(directory / mine));
  }
}

}  // namespace
}  // namespace paracord
