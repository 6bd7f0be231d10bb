// Tests the wrappers around a source of any format: shares, mixes and transformations.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "common/json_text.h"
#include "data/memory_files.h"
#include "data/mix_source.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

// Returns a CSV file of `rows` rows. x counts up from `first`, and y is 0.
std::string Counting(int rows, int first = 0) {
  std::string text = "x,y\n";
  for (int i = 0; i < rows; ++i) text += std::to_string(first + i) + ",0\n";
  return text;
}

json Csv(const std::string& path, json more = json::object()) {
  json options = {{"format", "csv"}, {"files", path}, {"features", {"x"}}, {"label", "y"}};
  options.update(more);
  return options;
}

OpenedSource OpenCsvOrMix(MemoryFiles& files, const json& options) {
  json parsed = JsonOf(TextOf(options));
  const std::string format = parsed.value("format", "mix");
  parsed.erase("format");
  return OpenDataSource(files, {format, parsed});
}

Values ReadAll(const DataSource& source, uint64_t epoch_key = 0) {
  std::vector<uint64_t> records(source.records());
  std::iota(records.begin(), records.end(), 0);
  Batch batch;
  const absl::Status read = source.ReadForTraining(records, epoch_key, batch);
  INFO(read);
  REQUIRE(read.ok());
  CHECK(batch.source == &source);
  CHECK(batch.records == records);
  return batch.inputs[0].values;
}

TEST_CASE("parts that meet hold every record once, shuffled alike or in order") {
  MemoryFiles files;
  files.contents["/d"] = Counting(101);
  for (const json& seed : {json(), json(7)}) {
    Values all;
    std::set<std::string> fingerprints;
    for (const auto& [from, to] : {std::pair(0.0, 0.25), {0.25, 0.9}, {0.9, 1.0}}) {
      const auto source =
          OpenCsvOrMix(files, Csv("/d", {{"part", {{"from", from}, {"to", to}, {"seed", seed}}}}));
      INFO(source.status());
      REQUIRE(source.ok());
      const Values values = ReadAll(**source);
      all.insert(all.end(), values.begin(), values.end());
      fingerprints.insert((*source)->fingerprint());
      CHECK((*source)->Where(0) == "/d row " + std::to_string(static_cast<int>(values[0])));
      Batch batch;
      CHECK_FALSE((*source)->Read(std::vector<uint64_t>{values.size()}, batch).ok());
    }
    CHECK(fingerprints.size() == 3);
    CHECK(std::is_sorted(all.begin(), all.end()) == seed.is_null());
    std::sort(all.begin(), all.end());
    Values expected(101);
    std::iota(expected.begin(), expected.end(), 0.f);
    CHECK(all == expected);
  }
}

TEST_CASE("a mix holds its weights, every record, and each place once") {
  const std::vector<std::pair<std::vector<uint64_t>, Values>> table = {
      {{10}, {1}},         {{10, 10}, {1, 1}},     {{30, 10}, {3, 1}},          {{10, 10}, {3, 1}},
      {{1, 1000}, {1, 9}}, {{7, 5, 3}, {2, 3, 5}}, {{4, 4, 4, 4}, {1, 2, 3, 4}}};
  for (const auto& [records, weights] : table) {
    const auto order = MixOrder::Make(records, std::vector<double>(weights.begin(), weights.end()));
    REQUIRE(order.ok());
    std::map<size_t, std::set<uint64_t>> seen;
    for (uint64_t i = 0; i < order->total(); ++i) {
      const MixOrder::Place place = order->At(i);
      CHECK(place.index < order->counts()[place.source]);
      CHECK(seen[place.source].insert(place.index).second);
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.f);
    bool one_is_exact = false;
    for (size_t i = 0; i < records.size(); ++i) {
      CHECK(seen[i].size() == order->counts()[i]);
      CHECK(order->counts()[i] >= records[i]);
      one_is_exact = one_is_exact || order->counts()[i] == records[i];
      const float share =
          static_cast<float>(order->counts()[i]) / static_cast<float>(order->total());
      CHECK(std::abs(share - weights[i] / sum) <
            static_cast<float>(records.size()) / static_cast<float>(order->total()));
    }
    CHECK(one_is_exact);  // an epoch is never longer than necessary
  }
  CHECK_FALSE(MixOrder::Make({1u << 30, 1}, {1e-9, 1e9}).ok());
}

TEST_CASE("the sources of a mix alternate as evenly as their weights allow") {
  const auto order = MixOrder::Make({300, 100}, {3, 1});
  REQUIRE(order.ok());
  for (uint64_t i = 0; i + 4 <= order->total(); i += 4) {
    int second = 0;
    for (uint64_t j = i; j < i + 4; ++j) second += order->At(j).source == 1;
    CHECK(second == 1);
  }
}

TEST_CASE("a mix reads from its sources wherever a record stands") {
  MemoryFiles files;
  files.contents = {{"/a", Counting(6)}, {"/b", Counting(4, 100)}};
  const json options = {{"mix", {Csv("/a", {{"weight", 1}}), Csv("/b", {{"weight", 2}})}}};
  const auto source = OpenCsvOrMix(files, options);
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 18);
  std::map<float, int> count;
  const Values values = ReadAll(**source);
  for (const float value : values) ++count[value];
  for (int i = 0; i < 6; ++i) CHECK(count[static_cast<float>(i)] == 1);
  for (int i = 100; i < 104; ++i) CHECK(count[static_cast<float>(i)] == 3);
  Batch batch;
  for (uint64_t record = 0; record < 18; ++record) {
    REQUIRE((*source)->Read(std::vector<uint64_t>{record}, batch).ok());
    CHECK(batch.inputs[0].values == Values{values[record]});
    const bool from_b = values[record] >= 100;
    const int row = static_cast<int>(values[record]) - (from_b ? 100 : 0);
    CHECK((*source)->Where(record) == (from_b ? "/b row " : "/a row ") + std::to_string(row));
  }
}

TEST_CASE("a mix that is read for prediction needs no labels in any of its files") {
  MemoryFiles files;
  files.contents = {{"/a", "x\n1\n2\n"}, {"/b", "x\n3\n4\n"}};
  DataSpec spec{"mix", JsonOf(TextOf(json{{"mix", {Csv("/a"), Csv("/b")}}}))};
  CHECK_FALSE(OpenDataSource(files, spec).ok());
  spec.inputs_alone = true;
  const auto source = OpenDataSource(files, spec);
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 4);
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{0, 1, 2, 3}, batch).ok());
  CHECK(batch.inputs[0].values.size() == 4);
  CHECK(batch.targets.empty());
}

TEST_CASE("a mix holds as much of its files in memory as its process lets it") {
  MemoryFiles files;
  files.contents = {{"/a", Counting(6)}, {"/b", Counting(4, 100)}};
  DataSpec spec{"mix", JsonOf(TextOf(json{{"mix", {Csv("/a"), Csv("/b")}}}))};
  spec.walked_max = 2;  // records of each source that are looked at
  const auto source = OpenDataSource(files, spec);
  REQUIRE(source.ok());
  CHECK((*source)->records() == 4);
}

TEST_CASE("fingerprints of mixes tell weights and orders apart") {
  MemoryFiles files;
  files.contents = {{"/a", Counting(6)}, {"/b", Counting(4, 100)}};
  const auto fingerprint = [&](const json& first, const json& second) {
    return OpenCsvOrMix(files, {{"mix", {first, second}}}).value()->fingerprint();
  };
  const json a = Csv("/a", {{"weight", 2}}), b = Csv("/b");
  CHECK(fingerprint(a, b) == fingerprint(a, b));
  CHECK(fingerprint(a, b) != fingerprint(b, a));
  CHECK(fingerprint(a, b) != fingerprint(Csv("/a"), b));
}

// Returns 2 images of 3 x 4. Pixel i has the value i.
MemoryFiles Images() {
  MemoryFiles files;
  std::string idx("\0\0\x08\x03\0\0\0\2\0\0\0\3\0\0\0\4", 16);
  for (int i = 0; i < 24; ++i) idx += static_cast<char>(i);
  files.contents = {{"/x", idx}, {"/y", std::string("\0\0\x08\x01\0\0\0\2\0\1", 10)}};
  return files;
}

json Idx(const json& transform) {
  return {{"format", "idx"}, {"features", "/x"}, {"labels", "/y"}, {"transform", transform}};
}

TEST_CASE("outside of training crops are in the middle and nothing is flipped") {
  MemoryFiles files = Images();
  const auto source = OpenCsvOrMix(files, Idx({{{"crop", {1, 2}}},
                                               {{"flip", "horizontal"}},
                                               {{"normalise", {{"mean", 5}, {"std", 2}}}}}));
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->schema().inputs[0].shape == std::vector<uint64_t>{1, 2});
  Batch batch;
  for (int twice = 0; twice < 2; ++twice) {
    REQUIRE((*source)->Read(std::vector<uint64_t>{1, 0}, batch).ok());
    CHECK(batch.inputs[0].shape == std::vector<uint64_t>{1, 2});
    CHECK(batch.inputs[0].values == Values{6, 6.5, 0, 0.5});
    CHECK(batch.targets[0].values == Values{1, 0});
  }
}

TEST_CASE("in training a crop lies anywhere, with zeros beyond the image") {
  MemoryFiles files = Images();
  const auto source = OpenCsvOrMix(files, Idx({{{"crop", {3, 4}}, {"pad", 1}}}));
  REQUIRE(source.ok());
  std::set<Values> seen;
  for (uint64_t epoch = 0; epoch < 200; ++epoch) {
    const Values values = ReadAll(**source, epoch);
    CHECK(values == ReadAll(**source, epoch));
    seen.insert(Values(values.begin() + 12, values.end()));
  }
  std::set<Values> expected;
  for (int top = -1; top <= 1; ++top) {
    for (int left = -1; left <= 1; ++left) {
      Values crop;
      for (int y = top; y < top + 3; ++y) {
        for (int x = left; x < left + 4; ++x) {
          const bool inside = y >= 0 && y < 3 && x >= 0 && x < 4;
          crop.push_back(inside ? static_cast<float>(12 + y * 4 + x) : 0.f);
        }
      }
      expected.insert(crop);
    }
  }
  CHECK(seen == expected);
}

TEST_CASE("in training about every second image is flipped, whatever batch it comes in") {
  MemoryFiles files = Images();
  for (const bool vertical : {false, true}) {
    const auto source =
        OpenCsvOrMix(files, Idx({{{"flip", vertical ? "vertical" : "horizontal"}}}));
    REQUIRE(source.ok());
    const Values flipped = vertical ? Values{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}
                                    : Values{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8};
    int count = 0;
    for (uint64_t epoch = 0; epoch < 200; ++epoch) {
      Batch one, two;
      REQUIRE((*source)->ReadForTraining(std::vector<uint64_t>{0}, epoch, one).ok());
      REQUIRE((*source)->ReadForTraining(std::vector<uint64_t>{1, 0}, epoch, two).ok());
      const Values& values = one.inputs[0].values;
      CHECK(Values(two.inputs[0].values.begin() + 12, two.inputs[0].values.end()) == values);
      count += values == flipped;
      if (values != flipped) CHECK(values == Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    }
    CHECK(count > 70);
    CHECK(count < 130);
  }
}

TEST_CASE("a record that a mix repeats in an epoch is cropped anew") {
  MemoryFiles files = Images();
  const json first = Idx({{{"crop", {1, 1}}}});
  json second = first;
  second["weight"] = 20;
  const auto source = OpenCsvOrMix(files, {{"mix", {first, second}}});
  REQUIRE(source.ok());
  const Values values = ReadAll(**source, 3);
  CHECK(std::set<float>(values.begin(), values.end()).size() > 10);
}

TEST_CASE("wrong parts, mixes and transformations are refused by key, all at once") {
  MemoryFiles files = Images();
  files.contents["/d"] = Counting(10);
  const auto step = [&](json one) { return Idx(json::array({std::move(one)})); };
  const RefusedOptions table = {
      {Csv("/d", {{"part", {{"from", 0.5}, {"to", 0.5}, {"sed", 1}}}, {"label", "z"}}),
       {"part.from: must be less", "part.sed: unknown key", "there is no column \"z\""}},
      {Csv("/d", {{"part", {{"to", 0.01}}}}), {"part: holds none of the 10 records"}},
      {Csv("/d", {{"part", 3}}), {"part: must be an object"}},
      {{{"mix", json::array()}}, {"mix: must be a list of 1 to 64 sources"}},
      {{{"mix", {Csv("/d", {{"weight", 0}}), Csv("/no"), {{"format", "cvs"}}}}, {"mx", 1}},
       {"mix[0].weight: must be a number", "mix[1]: /no", "mix[2]: data format \"cvs\"",
        "mx: unknown key"}},
      {{{"mix", {Csv("/d"), step({{"flip", "vertical"}})}}}, {"mix[1]: its inputs"}},
      {Idx({{"crop", {1, 1}}}), {"transform: must be a list of steps"}},
      {step({{"crop", {1, 1}}, {"flip", "vertical"}}), {"transform[0]: needs one of"}},
      {step({{"crop", {0, 1}}, {"padd", 1}}),
       {"transform[0].crop: must be [height, width]", "transform[0].padd: unknown key"}},
      {step({{"crop", {4, 4}}}), {"transform[0]: the crop is larger than the image of 3 x 4"}},
      {step({{"flip", "diagonal"}}), {"transform[0].flip: is \"diagonal\""}},
      {step({{"normalise", {{"std", 0}}}}),
       {"transform[0].normalise.std: must be numbers above 0"}},
      {step({{"normalise", {{"mean", {1, 2, 3}}}}}),
       {"transform[0]: has 3 numbers for 1 channels"}},
      {Csv("/d", {{"transform", {{{"flip", "vertical"}}}}}),
       {"transform[0]: needs an input of shape (height, width)"}},
  };
  CheckRefused(table, [&](const json& options) { return OpenCsvOrMix(files, options); });
}

}  // namespace
}  // namespace paracord
