#include "config/nearest.h"

#include <catch2/catch.hpp>
#include <string>

#include "config/unknown_name.h"

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

TEST_CASE("a longer name is near the known one that it begins with") {
  CHECK(NearestName("batch_size", kKnown) == "batch");
  CHECK(NearestName("steps_per_epoch", kKnown) == "steps");
}

TEST_CASE("what other frameworks call a loss or a metric is known") {
  constexpr std::string_view kLosses[] = {"mean_squared_error", "binary_crossentropy"};
  constexpr std::string_view kMetrics[] = {"accuracy", "auc"};
  CHECK(NotSupported("roc_auc", kMetrics) ==
        " is not supported (did you mean \"auc\"?); supported: accuracy, auc");
  CHECK(NotSupported("bce_with_logits_loss", kLosses)
            .starts_with(" is not supported (did you mean \"binary_crossentropy\" with "
                         "\"from_logits\": true?);"));
  CHECK(NotSupported("roc_auc", kLosses).starts_with(" is not supported; supported: "));
}

TEST_CASE("the hint names the nearest, or all when there are few") {
  CHECK(NearestHint("bach", kKnown) == "; did you mean `batch`?");
  CHECK(NearestHint("learning_rate", kKnown) ==
        "; there is: batch, split_batches, seed, epochs, steps, ps");
  CHECK(NearestHint("x", {}) == "");
}

TEST_CASE("the hint shows names of a file without control characters, and cut") {
  const std::string nuls(300000, '\0');
  const std::string_view odd[] = {"\x1b[31mred", nuls};
  const std::string all = NearestHint("elephant", odd);
  CHECK(all.starts_with("; there is: \\x1b[31mred, \\x00"));
  CHECK(all.size() < 600);
  CHECK(NearestHint("[31mred", odd) == "; did you mean `\\x1b[31mred`?");
}

}  // namespace
}  // namespace paracord
