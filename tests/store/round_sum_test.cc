// The sum of a round has the bits of a plain tree over its lanes, in any order of arrival.
#include "store/round_sum.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "common/counter_random.h"
#include "common/half_float.h"
#include "common/parallel.h"
#include "store/block.h"
#include "tests/floats.h"

namespace paracord {
namespace {

using LaneOutcome = RoundSum::LaneOutcome;
using Fresh = std::unique_ptr<RoundSum::Buffer>;

constexpr uint64_t kBatch = 8;  // examples of a full batch

std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

Floats ValuesOf(const Gradient& gradient) {
  Floats values(gradient.elements());
  Gradient::Reader reader(gradient, 0, values.size());
  for (size_t at = 0; at < values.size(); at += kFloatsAtOnce) {
    const auto place = std::span(values).subspan(at, std::min(kFloatsAtOnce, values.size() - at));
    const std::span<const float> read = reader.Next(place);
    if (read.data() != place.data()) std::ranges::copy(read, place.begin());
  }
  return values;
}

// A gradient by rows. A dense gradient is a single row.
using Plain = std::optional<std::map<uint64_t, Floats>>;

struct Lane {
  Plain gradient;  // nullopt: none for this partition
  bool rejected = false;
  uint64_t examples = kBatch;
};

Plain PlainSum(const std::vector<Lane>& lanes, size_t first, size_t count) {
  if (count == 1) {
    return first < lanes.size() && !lanes[first].rejected ? lanes[first].gradient : std::nullopt;
  }
  const Plain left = PlainSum(lanes, first, count / 2);
  const Plain right = PlainSum(lanes, first + count / 2, count / 2);
  if (!left.has_value() || !right.has_value()) return left.has_value() ? left : right;
  Plain sum = left;
  for (const auto& [id, values] : *right) {
    const auto [row, only_right] = sum->try_emplace(id, values);
    for (size_t i = 0; !only_right && i < values.size(); ++i) row->second[i] += values[i];
  }
  return sum;
}

Plain PlainMean(const std::vector<Lane>& lanes) {
  Plain sum = PlainSum(lanes, 0, std::bit_ceil(lanes.size()));
  uint64_t examples = 0;
  for (const Lane& lane : lanes) examples += lane.rejected ? 0 : lane.examples;
  if (!sum.has_value()) return sum;
  for (auto& [id, values] : *sum) {
    for (float& value : values) {
      value *= static_cast<float>(static_cast<double>(kBatch) / static_cast<double>(examples));
    }
  }
  return sum;
}

// A partition under test, and the kind of its gradients.
struct Kind {
  RoundSum::Shape shape;
  bool whole = false;  // a gradient may have all elements
  bool rows = false;   // a gradient may name rows

  bool IsAll(const Plain& plain) const {
    return whole && (!rows || (plain.has_value() && plain->size() * Width() == shape.elements));
  }
  uint64_t Width() const { return shape.row_elements == 0 ? shape.elements : shape.row_elements; }
  PartitionUpdate UpdateOf(const Plain& plain) const {
    if (!plain.has_value()) return {};
    PartitionUpdate update;
    Floats values;
    RowIds ids;
    for (const auto& [id, row] : *plain) {
      ids.push_back(id);
      values.insert(values.end(), row.begin(), row.end());
    }
    update.gradient = Gradient(CordOf(values));
    if (!IsAll(plain)) update.rows = ids;
    return update;
  }
};

const Kind kDense{{.elements = 700}, true, false};
const Kind kGrowing{{.row_elements = 3}, false, true};
const Kind kFixed{{.elements = 12 * 3, .row_elements = 3, .first_row = 100}, true, true};

class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  uint64_t Below(uint64_t end) { return RandomBits(key_, draw_++) % end; }
  Floats Values(size_t count) {
    Floats values(count);
    for (float& value : values) {
      value = std::ldexp(static_cast<float>(RandomNormal(key_, draw_++)),
                         static_cast<int>(Below(30)) - 15);
    }
    return values;
  }
  Plain GradientFor(const Kind& kind) {
    if (Below(5) == 0) return std::nullopt;
    Plain gradient = std::map<uint64_t, Floats>();
    const bool all = kind.whole && (!kind.rows || Below(3) == 0);
    const uint64_t rows = kind.shape.elements == 0 ? 15 : kind.shape.elements / kind.Width();
    for (uint64_t row = 0; row < rows; ++row) {
      if (all || Below(3) == 0) (*gradient)[kind.shape.first_row + row] = Values(kind.Width());
    }
    return gradient;
  }
  template <class T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  const uint64_t key_;
  uint64_t draw_ = 0;
};

std::vector<Lane> DrawLanes(Draws& draws, const Kind& kind, uint32_t count) {
  std::vector<Lane> lanes(count);
  for (Lane& lane : lanes) {
    lane.gradient = draws.GradientFor(kind);
    lane.rejected = draws.Below(7) == 0;
  }
  if (draws.Below(3) == 0) lanes.back().examples = draws.Below(kBatch - 1) + 1;
  return lanes;
}

// Cuts the lanes into runs. A run of several lanes has no rejected lane.
std::vector<LaneRun> DrawRuns(Draws& draws, const std::vector<Lane>& lanes) {
  std::vector<LaneRun> runs;
  const auto size = static_cast<uint32_t>(lanes.size());
  for (uint32_t first = 0; first < size; first += runs.back().count) {
    LaneRun run{.first = first, .count = 1u << draws.Below(4)};
    const auto fits = [&] {
      if (!IsLaneRun(first, run.count, size)) return false;
      return run.count == 1 || std::none_of(&lanes[first], &lanes[first] + run.count,
                                            [](const Lane& lane) { return lane.rejected; });
    };
    while (!fits()) run.count /= 2;
    for (uint32_t i = 0; i < run.count; ++i) run.examples += lanes[first + i].examples;
    run.rejected = lanes[first].rejected;
    runs.push_back(run);
  }
  draws.Shuffle(runs);
  return runs;
}

void CheckMean(const Kind& kind, const PartitionUpdate& mean, const Plain& expected) {
  REQUIRE(mean.none() == !expected.has_value());
  if (mean.none()) return;
  Floats values;
  RowIds ids;
  for (const auto& [id, row] : *expected) {
    ids.push_back(id);
    values.insert(values.end(), row.begin(), row.end());
  }
  // The rows of all lanes together may be the whole table, by name.
  REQUIRE((mean.rows.has_value() || kind.IsAll(expected)));
  if (mean.rows.has_value()) REQUIRE(*mean.rows == ids);
  REQUIRE(mean.gradient.elements() == values.size());
  REQUIRE(BitsOf(ValuesOf(mean.gradient)) == BitsOf(values));
}

// Rounds of a sum, pushed in random order.
void CheckRounds(const Kind& kind, uint64_t seed) {
  Draws draws(seed);
  for (uint32_t lanes_max = 1; lanes_max <= 17; ++lanes_max) {
    RoundSum sum(kind.shape, kBatch);
    size_t most = 0;
    for (int round = 0; round < 12; ++round) {
      const auto count =
          static_cast<uint32_t>(round % 4 == 3 ? draws.Below(lanes_max) + 1 : lanes_max);
      const std::vector<Lane> lanes = DrawLanes(draws, kind, count);
      const std::vector<LaneRun> runs = DrawRuns(draws, lanes);
      CAPTURE(lanes_max, round, count);
      sum.Begin(count);
      std::vector<bool> in(count);
      PartitionUpdate update;  // lives until the mean is applied
      for (size_t i = 0; i < runs.size(); ++i) {
        const LaneRun& run = runs[i];
        update = kind.UpdateOf(PlainSum(lanes, run.first, run.count));
        Fresh fresh = sum.WantsBuffer() ? sum.MakeBuffer() : nullptr;
        const LaneOutcome taken = sum.Take(1, run, update, fresh);
        REQUIRE(taken == (i + 1 == runs.size() ? LaneOutcome::kWhole : LaneOutcome::kTaken));
        std::fill_n(in.begin() + run.first, run.count, true);
        Fresh none;
        const LaneRun again = runs[draws.Below(i + 1)];
        REQUIRE(sum.Take(1, again, kind.UpdateOf(draws.GradientFor(kind)), none) ==
                LaneOutcome::kAlready);
        most = std::max(most, sum.buffers());
        for (uint32_t lane = 0; lane < count; ++lane) REQUIRE(sum.Has(lane) == in[lane]);
      }
      for (uint32_t i = 0; i < count; ++i) REQUIRE(sum.rejected(i) == lanes[i].rejected);
      REQUIRE(sum.Missing(16).empty());
      CheckMean(kind, sum.Mean(), PlainMean(lanes));
    }
    CHECK(most <= RoundSum::BuffersMax(lanes_max));
  }
}

TEST_CASE("a dense sum has the bits of a plain tree in any order of arrival") {
  CheckRounds(kDense, 1);
}

TEST_CASE("a sum of rows has the bits of a plain tree in any order of arrival") {
  CheckRounds(kGrowing, 2);
}

TEST_CASE("a sum of rows and of whole gradients of a table has the bits of a plain tree") {
  CheckRounds(kFixed, 3);
}

LaneRun OneLane(uint32_t lane) { return {.first = lane, .count = 1, .examples = kBatch}; }

PartitionUpdate DenseUpdate(const Floats& values) { return {Gradient(CordOf(values)), {}}; }

TEST_CASE("a dense sum of many elements is the same on several threads and in 16 bits") {
  SetParallelThreads(3);
  const uint64_t elements = 2 * kPartElements + 4321;
  RoundSum sum({.elements = elements}, kBatch);
  sum.Begin(3);
  Draws draws(4);
  std::vector<Floats> lanes;
  std::vector<PartitionUpdate> updates;
  for (int i = 0; i < 3; ++i) {
    lanes.push_back(draws.Values(elements));
    std::vector<uint16_t> halves(elements);
    FloatsToBf16(lanes.back(), halves);
    Bf16ToFloats(halves, lanes.back());
    const absl::string_view bytes(reinterpret_cast<const char*>(halves.data()), elements * 2);
    updates.push_back({Gradient::Read(ENCODING_BF16, elements, absl::Cord(bytes)).value(), {}});
  }
  Fresh none;
  for (const uint32_t lane : {1, 2, 0}) {
    // The request's memory is gone once the push is answered.
    PartitionUpdate update = std::move(updates[lane]);
    sum.Take(1, OneLane(lane), update, none);
  }
  Floats expected(elements);
  for (size_t i = 0; i < elements; ++i) {
    expected[i] = ((lanes[0][i] + lanes[1][i]) + lanes[2][i]) * static_cast<float>(1.0 / 3.0);
  }
  CHECK(BitsOf(ValuesOf(sum.Mean().gradient)) == BitsOf(expected));
  SetParallelThreads(1);
}

TEST_CASE("rows in 16 bits are decoded before they are added") {
  const Floats values = {1.5f, -2, 0.25f, 8, 3, -0.5f};
  std::vector<uint16_t> halves(values.size());
  FloatsToBf16(values, halves);
  const absl::string_view bytes(reinterpret_cast<const char*>(halves.data()), halves.size() * 2);
  const PartitionUpdate encoded{Gradient::Read(ENCODING_BF16, 6, absl::Cord(bytes)).value(),
                                RowIds{2, 9}};
  RoundSum sum({.row_elements = 3}, kBatch);
  sum.Begin(2);
  Fresh none;
  CHECK(sum.Take(1, OneLane(0), encoded, none) == LaneOutcome::kTaken);
  CHECK(sum.Take(1, OneLane(1), encoded, none) == LaneOutcome::kWhole);
  CHECK(*sum.Mean().rows == RowIds{2, 9});
  CHECK(ValuesOf(sum.Mean().gradient) == values);
}

TEST_CASE("a run some of whose lanes are in the sum changes nothing") {
  RoundSum sum({.elements = 2}, kBatch);
  sum.Begin(4);
  Fresh none;
  CHECK(sum.Take(1, OneLane(1), DenseUpdate({1, 2}), none) == LaneOutcome::kTaken);
  const LaneRun pair{.first = 0, .count = 2, .examples = 2 * kBatch};
  CHECK(sum.Take(1, pair, DenseUpdate({10, 20}), none) == LaneOutcome::kPartly);
  const LaneRun all{.first = 0, .count = 4, .examples = 4 * kBatch};
  CHECK(sum.Take(1, all, DenseUpdate({10, 20}), none) == LaneOutcome::kPartly);
  CHECK(sum.Missing(16) == std::vector<uint32_t>{0, 2, 3});
  CHECK(sum.Missing(2) == std::vector<uint32_t>{0, 2});
  CHECK(sum.Take(1, OneLane(0), DenseUpdate({3, 4}), none) == LaneOutcome::kTaken);
  const LaneRun rest{.first = 2, .count = 2, .examples = 2 * kBatch};
  CHECK(sum.Take(1, rest, DenseUpdate({4, 2}), none) == LaneOutcome::kWhole);
  CHECK(ValuesOf(sum.Mean().gradient) == Floats{2, 2});
}

TEST_CASE("a round of one whole lane is applied from the request, without a buffer") {
  RoundSum sum({.elements = 2}, kBatch);
  sum.Begin(1);
  CHECK_FALSE(sum.WantsBuffer());
  Fresh none;
  const PartitionUpdate update = DenseUpdate({1, 2});
  CHECK(sum.Take(1, OneLane(0), update, none) == LaneOutcome::kWhole);
  CHECK(&sum.Mean() == &update);
  CHECK(sum.buffers() == 0);
  // A short batch came with the factor 1/4, which the mean reverses.
  sum.Begin(1);
  const LaneRun shorter{.first = 0, .count = 1, .examples = kBatch / 4};
  CHECK(sum.Take(1, shorter, update, none) == LaneOutcome::kWhole);
  CHECK(ValuesOf(sum.Mean().gradient) == Floats{4, 8});
  CHECK(sum.buffers() == 1);
}

TEST_CASE("a round all of whose lanes are rejected has no mean") {
  RoundSum sum({.row_elements = 1}, kBatch);
  sum.Begin(2);
  Fresh none;
  CHECK(sum.Take(1, {.first = 1, .count = 1, .examples = 0, .rejected = true}, {}, none) ==
        LaneOutcome::kTaken);
  // A gradient with a rejection is ignored.
  CHECK(sum.Take(1, {.first = 0, .count = 1, .examples = 0, .rejected = true}, DenseUpdate({1}),
                 none) == LaneOutcome::kWhole);
  CHECK(sum.Mean().none());
  CHECK(sum.rejected(0));
}

TEST_CASE("rows that no lane has are an update all the same, and no gradient at all is none") {
  RoundSum sum({.row_elements = 1}, kBatch);
  Fresh none;
  sum.Begin(2);
  const PartitionUpdate no_rows{Gradient(), RowIds()};
  CHECK(sum.Take(1, OneLane(0), no_rows, none) == LaneOutcome::kTaken);
  CHECK(sum.Take(1, OneLane(1), no_rows, none) == LaneOutcome::kWhole);
  CHECK_FALSE(sum.Mean().none());
  CHECK(sum.Mean().rows->empty());
  sum.Begin(2);
  CHECK(sum.Take(1, OneLane(0), {}, none) == LaneOutcome::kTaken);
  CHECK(sum.Take(1, OneLane(1), {}, none) == LaneOutcome::kWhole);
  CHECK(sum.Mean().none());
}

TEST_CASE("a push of a newer generation drops what is pending of the older one") {
  RoundSum sum({.elements = 1}, kBatch);
  sum.Begin(2);
  Fresh none;
  CHECK(sum.Take(1, OneLane(0), DenseUpdate({100}), none) == LaneOutcome::kTaken);
  CHECK(sum.Take(2, OneLane(1), DenseUpdate({2}), none) == LaneOutcome::kTaken);
  CHECK(sum.Missing(16) == std::vector<uint32_t>{0});
  CHECK(sum.Take(2, OneLane(0), DenseUpdate({4}), none) == LaneOutcome::kWhole);
  CHECK(ValuesOf(sum.Mean().gradient) == Floats{3});
  CHECK(sum.buffers() == 1);
}

// Adds whole rounds in the order of `lanes`. Returns the greatest number of buffers.
size_t BuffersIn(RoundSum& sum, const std::vector<uint32_t>& lanes) {
  size_t most = 0;
  sum.Begin(static_cast<uint32_t>(lanes.size()));
  const PartitionUpdate update = DenseUpdate(Floats(8, 1));
  for (const uint32_t lane : lanes) {
    Fresh fresh = sum.WantsBuffer() ? sum.MakeBuffer() : nullptr;
    sum.Take(1, OneLane(lane), update, fresh);
    most = std::max(most, sum.buffers());
  }
  return most;
}

TEST_CASE("half of the gradients are held at worst, and their memory serves later rounds") {
  std::vector<uint32_t> in_order(16), every_second;
  std::iota(in_order.begin(), in_order.end(), 0);
  for (uint32_t lane = 0; lane < 16; lane += 2) every_second.push_back(lane);
  for (uint32_t lane = 1; lane < 16; lane += 2) every_second.push_back(lane);
  RoundSum sum({.elements = 8}, kBatch);
  CHECK(BuffersIn(sum, in_order) <= 5);
  CHECK(BuffersIn(sum, every_second) == 8);
  CHECK(sum.bytes() == 8 * 8 * sizeof(float));
  for (int round = 0; round < 5; ++round) {
    CHECK(BuffersIn(sum, every_second) == 8);
    CHECK_FALSE(sum.WantsBuffer());
  }
  CHECK(sum.bytes() == 8 * 8 * sizeof(float));
}

TEST_CASE("a buffer that is not needed stays with who made it") {
  RoundSum sum({.elements = 8}, kBatch);
  sum.Begin(2);
  const PartitionUpdate update = DenseUpdate(Floats(8, 1));
  CHECK(sum.WantsBuffer());
  Fresh first = sum.MakeBuffer(), second = sum.MakeBuffer();
  sum.Take(1, OneLane(0), update, first);
  CHECK(first == nullptr);
  CHECK_FALSE(sum.WantsBuffer());
  sum.Take(1, OneLane(1), update, second);
  CHECK(second != nullptr);
  CHECK(sum.buffers() == 1);
}

TEST_CASE("a table's sum wants no memory for all of its rows") {
  RoundSum sum({.elements = 3000, .row_elements = 3}, kBatch);
  sum.Begin(4);
  CHECK_FALSE(sum.WantsBuffer());
  Fresh none;
  sum.Take(1, OneLane(0), {Gradient(CordOf(Floats(3, 1))), RowIds{7}}, none);
  CHECK(sum.bytes() == 3 * sizeof(float) + sizeof(uint64_t));
}

}  // namespace
}  // namespace paracord
