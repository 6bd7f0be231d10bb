// Commits and removals of rounds in an object store that fails. An old coordinator commits while a
// new one removes leftovers; the two interleave at every request.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/checkpoint_remover.h"
#include "coordinator/commit.h"
#include "coordinator/generations.h"
#include "coordinator/leftovers.h"
#include "objects/object_files.h"
#include "storage/checkpoint.h"
#include "tests/example_job.h"
#include "tests/fakes.h"
#include "tests/objects/memory_store.h"

namespace paracord {
namespace {

const std::string kDir = "s3://bucket/job";
const std::string kCheckpoints = CheckpointsDirectory(kDir);

// One process's view of the store, with separate retries.
class View : public ObjectFiles {
 public:
  View(ObjectStore& store, int tries)
      : ObjectFiles(store, [tries](int tried, const absl::Status&) { return tried < tries; }) {}
};

CommitRound RoundOf(uint64_t generation, bool complete) {
  CommitRound round;
  round.round = 1;
  round.generation = generation;
  round.directory = RoundDirectory(generation, 1);
  round.manifest.job_name = "test";
  round.manifest.job_json = JobToJson(ExampleJob().job);
  round.manifest.run_id = "0123456789abcdef0123456789abcdef";
  round.manifest.name = {.step = 4, .generation = generation, .round = 1};
  round.manifest.complete = complete;
  return round;
}

std::string FileOf(const CommitRound& round) {
  return kCheckpoints + "/" + round.directory + "/ps";
}

bool Holds(Files& files, const CommitRound& round) { return files.Open(FileOf(round)).ok(); }

// Commits as the coordinator does, which checks the claim before and after the write.
absl::Status CommitAsLeader(Files& files, const CommitRound& round) {
  absl::Status status = CheckNewestGeneration(files, kDir, round.generation);
  if (status.ok()) status = Commit(files, kCheckpoints, round);
  if (status.ok()) status = CheckNewestGeneration(files, kDir, round.generation);
  return status;
}

bool Listed(Files& files, const CheckpointName& name) {
  const auto names = ListCheckpoints(files, kCheckpoints);
  REQUIRE(names.ok());
  return std::ranges::count(*names, name) != 0;
}

struct Shared {
  explicit Shared(const CommitRound& round) {
    REQUIRE(files.MakeDirectories(kCheckpoints).ok());
    REQUIRE(Claim(files, kDir, round.generation, "old").ok());
    REQUIRE(files.MakeDirectories(kCheckpoints + "/" + round.directory).ok());
    REQUIRE(files.WriteAtomic(FileOf(round), "tensors").ok());
  }
  // Calls `other` once, before the n-th request from now.
  void At(int n, std::function<void()> other) {
    store.fault = [this, n, other = std::move(other), asked = 0]() mutable {
      if (++asked == n) {
        const auto outer = std::exchange(store.fault, [] { return MemoryStore::Fault::kNone; });
        other();
        store.fault = outer;
        reached = true;
      }
      return MemoryStore::Fault::kNone;
    };
  }
  void Calm() {
    store.fault = [] { return MemoryStore::Fault::kNone; };
  }

  MemoryStore store;
  View files{store, 1};
  bool reached = false;
};

void CheckNothingHalf(Shared& shared, const CommitRound& round, const absl::Status& committed) {
  shared.Calm();
  const bool listed = Listed(shared.files, round.manifest.name);
  if (listed) CHECK(Holds(shared.files, round));  // a listed checkpoint has all its files
  if (committed.ok()) CHECK(listed);
}

TEST_CASE("a commit in an object store is there with its files, and may be repeated") {
  const CommitRound round = RoundOf(2, false);
  Shared shared(round);
  REQUIRE(CommitAsLeader(shared.files, round).ok());
  CHECK(Listed(shared.files, round.manifest.name));
  CHECK(CommitAsLeader(shared.files, round).ok());
  CHECK(*shared.files.ReadWhole(kCheckpoints + "/step-4-g2-r1/MANIFEST.json") ==
        ManifestToText(round.manifest));
  RemoveLeftovers(shared.files, kCheckpoints, 3);
  CheckNothingHalf(shared, round, absl::OkStatus());
  bool ended = false;
  REQUIRE(RemoveCheckpoint(shared.files, kCheckpoints, "step-4-g2-r1", ended).ok());
  CHECK(ended);
  CHECK(shared.files.List(kCheckpoints)->empty());
}

TEST_CASE("whenever a new coordinator cleans up, an old commit has all of its files or is none") {
  const bool complete = GENERATE(false, true);
  for (int at = 1;; ++at) {
    CAPTURE(at, complete);
    const CommitRound round = RoundOf(2, complete);
    Shared shared(round);
    View newer(shared.store, 1);
    bool seen_by_newer = false;
    shared.At(at, [&] {
      REQUIRE(Claim(newer, kDir, 3, "new").ok());
      seen_by_newer = Listed(newer, round.manifest.name);
      RemoveLeftovers(newer, kCheckpoints, 3);
    });
    const absl::Status committed = CommitAsLeader(shared.files, round);
    if (!shared.reached) break;
    CheckNothingHalf(shared, round, committed);
    CHECK_FALSE(committed.ok());  // a newer claim exists
    if (seen_by_newer) CHECK(Listed(shared.files, round.manifest.name));
  }
}

TEST_CASE("whenever an old coordinator commits, a new one's cleaning leaves no half of it") {
  const bool complete = GENERATE(false, true);
  for (int at = 1;; ++at) {
    CAPTURE(at, complete);
    const CommitRound round = RoundOf(2, complete);
    Shared shared(round);
    View older(shared.store, 1);
    REQUIRE(Claim(shared.files, kDir, 3, "new").ok());
    absl::Status committed;
    // The older coordinator checked the claims earlier, and writes late.
    shared.At(at, [&] { committed = Commit(older, kCheckpoints, round); });
    RemoveLeftovers(shared.files, kCheckpoints, 3);
    if (!shared.reached) break;
    CheckNothingHalf(shared, round, committed);
    RemoveLeftovers(shared.files, kCheckpoints, 4);
    CheckNothingHalf(shared, round, committed);
  }
}

TEST_CASE("with lost answers and refusals a commit says the truth or does not know") {
  SeededRandom random(GENERATE(range(1, 41)));
  const CommitRound round = RoundOf(2, false);
  Shared shared(round);
  View files(shared.store, 3);
  shared.store.fault = [&] {
    const uint64_t draw = random.Next() % 6;
    return draw == 0   ? MemoryStore::Fault::kBefore
           : draw == 1 ? MemoryStore::Fault::kAfter
                       : MemoryStore::Fault::kNone;
  };
  absl::Status committed = CommitAsLeader(files, round);
  for (int tries = 0; tries < 20 && absl::IsUnavailable(committed); ++tries) {
    committed = CommitAsLeader(files, round);
  }
  CHECK(committed.ok());
  CheckNothingHalf(shared, round, committed);
}

TEST_CASE("a checkpoint that cannot be looked into is listed all the same") {
  const CommitRound round = RoundOf(2, false);
  Shared shared(round);
  View files(shared.store, 1);
  REQUIRE(CommitAsLeader(files, round).ok());
  // The first request lists all objects; the next ones read the checkpoint and its mark.
  shared.store.fault = [asked = 0, fails = GENERATE(2, 3)]() mutable {
    return ++asked == fails ? MemoryStore::Fault::kBefore : MemoryStore::Fault::kNone;
  };
  CHECK(Listed(files, round.manifest.name));
}

TEST_CASE("of two coordinators one gets the generation, whatever answers are lost") {
  SeededRandom random(GENERATE(range(1, 41)));
  MemoryStore store;
  View one(store, 40), other(store, 40);
  REQUIRE(one.MakeDirectories(kDir).ok());
  store.fault = [&] { return static_cast<MemoryStore::Fault>(random.Next() % 3); };
  const bool first = Claim(one, kDir, 5, "one").ok();
  const bool second = Claim(other, kDir, 5, "other").ok();
  CHECK(first != second);
}

TEST_CASE("a round of our own that failed goes, and what its commit left makes no checkpoint") {
  const CommitRound round = RoundOf(2, false);
  Shared shared(round);
  // A ps was killed in the middle of an upload, which lists under no name.
  const std::string parts = kCheckpoints + "/" + round.directory;
  REQUIRE(shared.store.StartUpload(parts + "/ps-of-the-dead").ok());
  bool ended = false;
  CHECK(RemoveCheckpoint(shared.files, kCheckpoints, round.directory, ended).ok());
  CHECK(shared.store.uploads.empty());
  CHECK_FALSE(Holds(shared.files, round));
  CHECK(absl::IsAborted(Commit(shared.files, kCheckpoints, round)));  // too late
  CHECK_FALSE(Listed(shared.files, round.manifest.name));
}

TEST_CASE("what a ps writes to a failed round after its removal goes with the next removal") {
  const CommitRound round = RoundOf(2, false);
  Shared shared(round);
  CheckpointRemover remover(shared.files, kCheckpoints);
  CHECK(remover.Remove({round.directory}).empty());
  CHECK_FALSE(Holds(shared.files, round));
  const std::string parts = kCheckpoints + "/" + round.directory;
  SECTION("an object") { REQUIRE(shared.files.WriteAtomic(FileOf(round), "late").ok()); }
  SECTION("parts of one") { REQUIRE(shared.store.StartUpload(parts + "/ps").ok()); }
  CHECK(remover.Remove({}).empty());
  CHECK(*shared.files.List(parts) == std::vector<std::string>{kRemovedName});
  CHECK(shared.store.uploads.empty());
}

}  // namespace
}  // namespace paracord
