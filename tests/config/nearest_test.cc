#include "config/nearest.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

constexpr std::string_view kKnown[] = {"batch", "split_batches", "seed", "epochs", "steps", "ps"};

TEST_CASE("a misspelt name finds the one that was meant") {
  const std::pair<const char*, const char*> cases[] = {
      {"batches", "batch"}, {"bacth", "batch"},
      {"BATCH", "batch"},   {"split_batch", "split_batches"},
      {"sed", "seed"},      {"epoch", "epochs"},
      {"step", "steps"},    {"spets", "steps"},
      {"pss", "ps"},        {"batch", "batch"},
  };
  for (const auto& [wrong, meant] : cases) CHECK(NearestName(wrong, kKnown) == meant);
}

TEST_CASE("a name that has nothing in common with any known one gets no suggestion") {
  for (const char* wrong : {"", "learning_rate", "x", "qqq"}) {
    CHECK(NearestName(wrong, kKnown) == "");
  }
  CHECK(NearestName(std::string(1000000, 'a'), kKnown) == "");
  CHECK(NearestName("batch", {}) == "");
}

TEST_CASE("of equally near names the first one is suggested") {
  constexpr std::string_view kTwo[] = {"aac", "aab"};
  CHECK(NearestName("aaa", kTwo) == "aac");
}

TEST_CASE("the hint names the nearest, or all when there are few") {
  CHECK(NearestHint("bach", kKnown) == "; did you mean `batch`?");
  CHECK(NearestHint("learning_rate", kKnown) ==
        "; there is: batch, split_batches, seed, epochs, steps, ps");
  CHECK(NearestHint("x", {}) == "");
}

}  // namespace
}  // namespace paracord
