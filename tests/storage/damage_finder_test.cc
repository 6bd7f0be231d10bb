// The damage found in delta checkpoints, and how often each checkpoint is read.
#include "storage/damage_finder.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "storage/chain.h"
#include "tests/stored_chain.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

struct ThreeLinks : StoredChain {
  ThreeLinks() : StoredChain(2) {}
  const std::string first = Add({{1, 1}, {2, 2}}, {}, 2), second = Add({{2, 20}}, {}, 2),
                    third = Add({{1, 10}}, {}, 2);
};

TEST_CASE("each checkpoint of a chain is read once to verify all of them") {
  ThreeLinks chain;
  bool damaged = false;
  SECTION("sound") {}
  SECTION("damaged") {
    chain.Damage(chain.first);
    damaged = true;
  }
  WatchedFiles files;
  DamageFinder finder(files, /*whole=*/true);
  for (const std::string& name : {chain.third, chain.second, chain.first}) {
    const std::vector<absl::Status> damage = finder.Find(chain.Path(name));
    REQUIRE(damage.size() == (damaged ? 1 : 0));
    if (!damaged) continue;
    CHECK(absl::StrContains(damage[0].message(), chain.PartOf(chain.first) + ": checksum"));
    CHECK(absl::StartsWith(damage[0].message(), name) == (name != chain.first));
  }
  for (const std::string& name : {chain.third, chain.second, chain.first}) {
    CHECK(files.Opened(chain.PartOf(name)) == 1);
  }
}

TEST_CASE("a link that continues another state than its base holds is found by name") {
  ThreeLinks chain;
  Manifest manifest = chain.ManifestOf(chain.third);
  manifest.base = chain.first;
  chain.Put(chain.third, manifest);
  const std::string fourth = chain.Add({{2, 200}}, {}, 2);
  PosixFiles files;
  for (const std::string& name : {fourth, chain.third}) {
    const std::vector<absl::Status> damage = FindDamage(files, chain.Path(name));
    REQUIRE(damage.size() == 1);
    INFO(damage[0]);
    CHECK(absl::IsDataLoss(damage[0]));
    CHECK(absl::StrContains(damage[0].message(), chain.third + ": partition"));
    CHECK(absl::StrContains(damage[0].message(),
                            " continues 20 updates, " + chain.first + " has 10"));
  }
  CHECK(FindDamage(files, chain.Path(chain.second)).empty());
}

TEST_CASE("a link that continues a checkpoint of another run is found by name") {
  ThreeLinks chain;
  Manifest manifest = chain.ManifestOf(chain.second);
  manifest.run_id[0] = 'f';
  chain.Put(chain.second, manifest);
  PosixFiles files;
  const std::vector<absl::Status> damage = FindDamage(files, chain.Path(chain.third));
  REQUIRE(damage.size() == 1);
  CHECK(absl::StrContains(damage[0].message(),
                          chain.second + " is of run f0112233445566778899aabbccddeeff, and is "
                                         "continued by one of run 00112233"));
}

TEST_CASE("a link knows its base by name, also where another one counts the same") {
  Manifest manifest;
  manifest.partitions.emplace_back().spec.set_name("t/part_0");
  manifest.base = "step-10-g2-r7";
  StoredPartition older;
  older.updates = 10;
  older.table.emplace().now = 9;
  StoredPartition newer = older;
  newer.table->since = {.now = 9, .updates = 10};
  CHECK(CheckContinues(older, newer, "/c/x", manifest).ok());  // written before bases had names
  newer.table->since->base = manifest.base;
  CHECK(CheckContinues(older, newer, "/c/x", manifest).ok());
  newer.table->since->base = "step-10-g1-r6";
  const absl::Status other = CheckContinues(older, newer, "/c/x", manifest);
  CHECK(absl::IsDataLoss(other));
  CHECK(other.message() ==
        "/c/x: partition t/part_0 continues step-10-g1-r6, and its manifest says step-10-g2-r7");
}

}  // namespace
}  // namespace paracord
