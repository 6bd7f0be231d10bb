#include "coordinator/checkpoint_remover.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "tests/stored_chain.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

struct OldChain : StoredChain {
  OldChain() : StoredChain(2) {}
  bool Is(const std::string& name) { return IsCheckpoint(files, Path(name)); }
  bool Stands(const std::string& name) { return files.List(Path(name)).ok(); }

  WatchedFiles files;
  const std::string before = Add({{1, 1}}, {}, 1), first = AddFull(),
                    second = Add({{2, 20}}, {}, 2), third = Add({{1, 10}}, {}, 2);
  CheckpointRemover remover{files, checkpoints()};

 private:
  std::string AddFull() {
    BeginFull();
    return Add({{1, 1}, {2, 2}}, {}, 2);
  }
};

TEST_CASE("a checkpoint that cannot be removed keeps what it continues, and others go") {
  OldChain chain;
  const std::string ill = GENERATE(std::string("remove manifest"), std::string("sync directory"));
  CAPTURE(ill);
  const bool synced = ill[0] != 's';
  chain.files.MakeIll(synced ? "remove " + chain.Path(chain.third) + "/" + kManifestName
                             : "sync " + chain.Path(chain.third));
  const std::vector<absl::Status> errors =
      chain.remover.Remove({chain.third, chain.second, chain.first, chain.before});
  REQUIRE(errors.size() == 1);
  CHECK(absl::StartsWith(errors[0].message(), chain.third + " cannot be removed"));
  CHECK(absl::StrContains(errors[0].message(), "input/output error"));
  CHECK(chain.Is(chain.third) == synced);
  CHECK(chain.Is(chain.second));
  CHECK(chain.Is(chain.first));
  CHECK_FALSE(chain.Stands(chain.before));
  if (synced) CHECK(VerifyCheckpoint(chain.files, chain.Path(chain.third)).ok());
  // The failure is reported once, and the removal retried each time.
  CHECK(chain.remover.Remove({}).empty());
  CHECK(chain.Is(chain.first));
  chain.files.MakeWell();
  CHECK(chain.remover.Remove({}).empty());
  for (const std::string& name : {chain.third, chain.second, chain.first}) {
    CHECK_FALSE(chain.Stands(name));
  }
}

TEST_CASE("a checkpoint that can be neither read nor removed keeps all that are older") {
  OldChain chain;
  const std::string manifest = chain.Path(chain.third) + "/" + kManifestName;
  chain.files.MakeIll("open " + manifest);
  chain.files.MakeIll("remove " + manifest);
  const std::string failed = RoundDirectory(1, 99);
  REQUIRE(chain.files.MakeDirectories(chain.Path(failed)).ok());
  CHECK(chain.remover.Remove({chain.third, chain.second, chain.first, failed}).size() == 1);
  CHECK(chain.Is(chain.second));
  CHECK(chain.Is(chain.first));
  CHECK_FALSE(chain.Stands(failed));
  // A newer checkpoint is removed nevertheless.
  const std::string fourth = chain.Add({{1, 1}}, {}, 2);
  CHECK(chain.remover.Remove({fourth}).empty());
  CHECK_FALSE(chain.Stands(fourth));
  CHECK(chain.Is(chain.first));
  chain.files.MakeWell();
  CHECK(chain.remover.Remove({}).empty());
  CHECK_FALSE(chain.Stands(chain.first));
}

TEST_CASE("what is no checkpoint any more keeps nothing, and its rest goes later") {
  OldChain chain;
  chain.files.MakeIll("remove " + chain.Path(chain.third));
  CHECK(chain.remover.Remove({chain.third, chain.second, chain.first}).size() == 1);
  CHECK_FALSE(chain.Is(chain.third));
  CHECK(chain.Stands(chain.third));
  CHECK_FALSE(chain.Stands(chain.second));
  CHECK_FALSE(chain.Stands(chain.first));
  chain.files.MakeWell();
  CHECK(chain.remover.Remove({chain.before}).empty());
  CHECK_FALSE(chain.Stands(chain.third));
  CHECK_FALSE(chain.Stands(chain.before));
}

TEST_CASE("names beyond the bound leave none behind that continues one that is removed") {
  OldChain chain;
  chain.files.MakeIll("remove " + chain.Path(chain.third) + "/" + kManifestName);
  CHECK(chain.remover.Remove({chain.third, chain.second, chain.first}).size() == 1);
  std::vector<std::string> rounds;
  for (size_t round = 0; round < CheckpointRemover::kAgainMax - 2; ++round) {
    rounds.push_back(RoundDirectory(1, 100 + round));
    chain.files.MakeIll("remove " + chain.Path(rounds.back()));
  }
  CHECK(chain.remover.Remove(rounds).size() == rounds.size());
  CHECK(chain.remover.Remove({}).empty());
  CHECK(VerifyCheckpoint(chain.files, chain.Path(chain.third)).ok());
}

TEST_CASE("as many names as are tried again have a bound") {
  OldChain chain;
  std::vector<std::string> names;
  for (size_t round = 0; round < CheckpointRemover::kAgainMax + 3; ++round) {
    names.push_back(RoundDirectory(1, 100 + round));
    chain.files.MakeIll("remove " + chain.Path(names.back()));
  }
  CHECK(chain.remover.Remove(names).size() == names.size());
  chain.files.MakeWell();
  for (const std::string& name : names) REQUIRE(chain.files.MakeDirectories(chain.Path(name)).ok());
  CHECK(chain.remover.Remove({}).empty());
  for (size_t i = 0; i < names.size(); ++i)
    CHECK(chain.Stands(names[i]) == (i >= CheckpointRemover::kAgainMax));
}

}  // namespace
}  // namespace paracord
