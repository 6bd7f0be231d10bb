#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "data/memory_files.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

json PairOptions(json skipgram) {
  return {{"files", "/t"}, {"unit", "word"}, {"skipgram", std::move(skipgram)}};
}

OpenedSource OpenPairs(Files& files, const json& options) {
  return OpenDataSource(files, {"text", JsonOf(TextOf(options))});
}

// Returns the words w100 to w(100 + n - 1). Their numbers are 2 to n + 1, in this order.
std::string CountedWords(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) absl::StrAppend(&text, "w", 100 + i, i % 7 == 6 ? "\n" : " ");
  return text;
}

Batch EpochOf(const DataSource& source, uint64_t key) {
  std::vector<uint64_t> records(source.records());
  std::iota(records.begin(), records.end(), 0);
  Batch batch;
  REQUIRE(source.ReadForTraining(records, key, batch).ok());
  return batch;
}

TEST_CASE("every word is paired with words near it as often as windows have them") {
  MemoryFiles files;
  files.contents["/t"] = CountedWords(200);
  const auto source = OpenPairs(files, PairOptions({{"window", 3}, {"negative", 2}}));
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 200 * 4);
  CHECK((*source)->schema().inputs[0].name == "word");
  CHECK((*source)->schema().inputs[1].shape == std::vector<uint64_t>{3});
  std::map<int, int> distances;
  constexpr int kEpochs = 30;
  for (uint64_t key = 0; key < kEpochs; ++key) {
    const Batch batch = EpochOf(**source, key);
    for (size_t i = 0; i < batch.examples; ++i) {
      CHECK(batch.inputs[0].values[i] == static_cast<float>(2 + i / 4));
      const int from = static_cast<int>(batch.inputs[0].values[i]);
      const int to = static_cast<int>(batch.inputs[1].values[3 * i]);
      if (from > 5 && from < 198) ++distances[std::abs(from - to)];
      CHECK(Values(batch.targets[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i),
                   batch.targets[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i + 3)) ==
            Values{1, 0, 0});
    }
  }
  REQUIRE(distances.size() == 3);
  const double pairs = 4.0 * 192 * kEpochs;
  for (const auto& [distance, count] : distances) {
    INFO(distance << ": " << count);
    CHECK(count / pairs == Approx((4 - distance) / 6.0).margin(0.01));
  }
}

TEST_CASE("pairs are a function of the epoch and the record alone") {
  MemoryFiles files;
  files.contents["/t"] = CountedWords(50) + CountedWords(50) + "w100 w100 w100 w100 w100 w100";
  const json options = PairOptions({{"window", 2}, {"negative", 3}, {"subsample", 0.01}});
  const auto source = OpenPairs(files, options), again = OpenPairs(files, options);
  REQUIRE((source.ok() && again.ok()));
  CHECK((*source)->fingerprint() == (*again)->fingerprint());
  const Batch first = EpochOf(**source, 7), other = EpochOf(**source, 8);
  CHECK(first.inputs[1].values != other.inputs[1].values);
  Batch some;
  for (const uint64_t key : {9u, 10u, 11u}) EpochOf(**again, key);
  REQUIRE((*again)->ReadForTraining(std::vector<uint64_t>{17, 3}, 7, some).ok());
  CHECK(some.inputs[0].values == Values{first.inputs[0].values[17], first.inputs[0].values[3]});
  for (size_t k = 0; k < 4; ++k) {
    CHECK(some.inputs[1].values[k] == first.inputs[1].values[17 * 4 + k]);
    CHECK(some.inputs[1].values[4 + k] == first.inputs[1].values[3 * 4 + k]);
  }
  CHECK_FALSE((*source)->Read(std::vector<uint64_t>{(*source)->records()}, some).ok());
}

TEST_CASE("words are drawn by the power 3/4 of their number, and never the near one") {
  MemoryFiles files;
  for (int i = 0; i < 1000; ++i)
    files.contents["/t"] += i % 10 == 0 ? "b " : i % 10 == 1 ? "c " : "a ";
  const auto source = OpenPairs(files, PairOptions({{"window", 1}, {"negative", 20}}));
  REQUIRE(source.ok());
  const Batch batch = EpochOf(**source, 1);
  std::map<float, double> drawn;  // words drawn beside the word a, which is number 2
  double all = 0;
  for (size_t i = 0; i < batch.examples; ++i) {
    const float* const others = batch.inputs[1].values.data() + 21 * i;
    for (size_t k = 1; k < 21; ++k) {
      CHECK(others[k] != others[0]);
      if (others[0] != 3) continue;
      ++drawn[others[k]];
      ++all;
    }
  }
  const double a = std::pow(800, 0.75), c = std::pow(100, 0.75);
  CHECK(drawn[2] / all == Approx(a / (a + c)).margin(0.02));
  CHECK(drawn[4] / all == Approx(c / (a + c)).margin(0.02));
}

TEST_CASE("frequent words are left out more often, and unknown ones always") {
  MemoryFiles files;
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&files.contents["/t"], "the ", i % 2 == 0 ? "w" : "v", i % 100, " ");
  }
  const double allowed = 0.01 * 4000;
  const double keep = (std::sqrt(2000 / allowed) + 1) * allowed / 2000;
  json options = PairOptions({{"window", 5}, {"negative", 1}, {"subsample", 0.01}});
  const auto source = OpenPairs(files, options);
  REQUIRE(source.ok());
  CHECK((*source)->records() == static_cast<uint64_t>(2000 * keep + 2000) * 6);
  const Batch batch = EpochOf(**source, 3);
  const auto centres = static_cast<double>(std::ranges::count(batch.inputs[0].values, 2.f));
  CHECK(centres / batch.examples == Approx(keep / (keep + 1)).margin(0.02));

  options["vocabulary"] = 2;  // "the", and the first of the rest
  const auto small = OpenPairs(files, options);
  REQUIRE(small.ok());
  const Batch known = EpochOf(**small, 3);
  CHECK(std::ranges::count(known.inputs[0].values, 1.f) == 0);
  CHECK((*small)->Describe().starts_with("vocabulary of 4, 2020 words"));
}

TEST_CASE("what pairs cannot be made of is refused") {
  MemoryFiles files;
  files.contents["/t"] = "one one one one\n";
  json window = PairOptions({{"window", 2}});
  window["window"] = 4;
  json unit = PairOptions({{"window", 2}});
  unit.erase("unit");
  CheckRefused({{PairOptions({{"window", 2}}), {"/t: has too few words"}},
                {PairOptions({{"window", 0}}), {"skipgram.window"}},
                {PairOptions({{"negatives", 2}}), {"skipgram.negatives"}},
                {unit, {"unit: must be \"word\""}},
                {window, {"data (text).window"}}},
               [&](const json& options) { return OpenPairs(files, options); });
}

}  // namespace
}  // namespace paracord
