// Tests `export` and `checkpoint verify` on delta checkpoints.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "tests/stored_chain.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

TEST_CASE("a command that falls back reads a damaged checkpoint once for all that continue it") {
  StoredChain chain(2);
  const std::string older = chain.Add({{1, 1}}, {}, 1);
  chain.BeginFull();
  const std::string base = chain.Add({{1, 2}}, {}, 1);
  const std::string second = chain.Add({{2, 3}}, {}, 2), third = chain.Add({{3, 4}}, {}, 3);
  chain.Damage(base);
  WatchedFiles files;
  std::ostringstream notes;
  const auto chosen = ChooseCheckpoint(files, chain.dir(), std::nullopt, notes);
  INFO(notes.str());
  REQUIRE(chosen.ok());
  CHECK(chosen->manifest.name.ToString() == older);
  for (const std::string& refused : {third, second, base}) {
    CHECK(absl::StrContains(notes.str(), "checkpoint " + refused + " is refused: "));
  }
  // Opened once for its bytes, and once for its size when it is tried as a checkpoint.
  CHECK(files.Opened(chain.PartOf(base)) == 2);
}

TEST_CASE("the doctor names a checkpoint that is lost and another one continues") {
  StoredChain chain(2);
  const std::string base = chain.Add({{1, 2}}, {}, 1), second = chain.Add({{2, 3}}, {}, 2);
  const std::vector<std::string> args = {"--dir", chain.dir(), "--device", "cpu"};
  std::ostringstream out, err;
  RunDoctor(args, out, err);
  CHECK_FALSE(absl::StrContains(out.str(), "is not there any more"));
  std::filesystem::remove_all(chain.Path(base));
  CHECK(RunDoctor(args, out, err) == 1);
  INFO(out.str());
  CHECK(absl::StrContains(out.str(),
                          base + " is not there any more, and " + second + " continues it"));
}

TEST_CASE("verify names the checkpoint that continues another one than it says") {
  StoredChain chain(2);
  const std::string first = chain.Add({{1, 1}, {2, 2}}, {}, 2);
  const std::string second = chain.Add({{2, 20}}, {}, 2), third = chain.Add({{1, 10}}, {}, 2);
  const std::vector<std::string> args = {"verify", "--dir", chain.dir()};
  std::ostringstream out, err;
  CHECK(RunCheckpoint(args, out, err) == 0);
  CHECK(err.str().empty());
  Manifest manifest = chain.ManifestOf(third);
  manifest.base = first;
  chain.Put(third, manifest);
  CHECK(RunCheckpoint(args, out, err) == 5);
  INFO(err.str());
  CHECK(absl::StartsWith(err.str(), third + ": damaged: " + chain.Path(third)));
  CHECK(absl::StrContains(err.str(), " continues 20 updates, " + first + " has 10\n"));
  CHECK_FALSE(absl::StrContains(err.str(), second));
}

}  // namespace
}  // namespace paracord
