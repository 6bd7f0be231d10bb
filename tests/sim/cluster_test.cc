// Many simulated clusters, each from one seed. PARACORD_SIM_SEEDS: how many in all.
#include "sim/cluster.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paracord {
namespace {

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

TEST_CASE("one seed of the cluster", "[.]") {
  SetUpLogging("debug");
  uint64_t hash = 0;
  const std::string found = RunSeed(Setting("PARACORD_SIM_SEED", 1), &hash);
  std::cout << (found.empty() ? "nothing found" : found) << "\n";
  CHECK(found.empty());
}

TEST_CASE("try", "[.]") {
  SetUpLogging("off");
  const uint64_t first = Setting("PARACORD_SIM_SEED", 1);
  uint64_t steps = 0, bad = 0;
  for (uint64_t seed = first; seed < first + Setting("PARACORD_SIM_SEEDS", 100); ++seed) {
    const std::string found = RunSeed(seed, nullptr, &steps);
    if (!found.empty()) {
      ++bad;
      std::cout << found.substr(0, 300 + 0 * found.find("\n")) << "\n---\n";
    }
  }
  std::cout << bad << " bad, " << steps << " steps\n";
}

}  // namespace
}  // namespace paracord
