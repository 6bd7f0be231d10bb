#include "exchange/lane_sum.h"

#include <algorithm>
#include <bit>

#include "common/vector_widths.h"

namespace paracord {
namespace {

float Ratio(uint64_t a, uint64_t b) {
  return static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
}

PARACORD_KERNEL void AddInPlace(float* sum, const float* other, size_t count) {
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) sum[i] += other[i];
}

PARACORD_WIDTHS(void, AddInPlaceWide, (float* sum, const float* other, size_t count),
                AddInPlace(sum, other, count))

PARACORD_KERNEL void ScaleInPlace(float factor, float* values, size_t count) {
  PARACORD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

PARACORD_WIDTHS(void, ScaleInPlaceWide, (float factor, float* values, size_t count),
                ScaleInPlace(factor, values, count))

// Returns the number of ids in both lists.
size_t CountShared(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  size_t shared = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    shared += a[i] == b[j] ? 1 : 0;
    const bool next_a = a[i] <= b[j], next_b = b[j] <= a[i];
    i += next_a ? 1 : 0;
    j += next_b ? 1 : 0;
  }
  return shared;
}

}  // namespace

bool IsLaneRun(uint32_t first, uint32_t count, uint32_t lanes) {
  return std::has_single_bit(count) && first % count == 0 && first < lanes &&
         count <= lanes - first;
}

float LaneFactor(uint64_t examples, uint64_t batch) { return Ratio(examples, batch); }

float MeanFactor(uint64_t batch, uint64_t examples) { return Ratio(batch, examples); }

void AddTo(std::span<float> sum, std::span<const float> other) {
  static const auto add = PICK_WIDTH(AddInPlaceWide);
  add(sum.data(), other.data(), sum.size());
}

void MultiplyBy(float factor, std::span<float> values) {
  static const auto scale = PICK_WIDTH(ScaleInPlaceWide);
  if (factor != 1) scale(factor, values.data(), values.size());
}

// Merges from the last row to the first. A row only moves to a higher place, so no row of the sum
// is overwritten before it has moved.
void AddRows(std::span<const uint64_t> ids, std::span<const float> values, uint64_t row_elements,
             SummedRows& sum) {
  const std::span<const uint64_t> had = sum.ids;
  const size_t total = had.size() + ids.size() - CountShared(had, ids);
  size_t i = had.size(), j = ids.size();
  sum.ids.resize(total);
  sum.values.resize(total * row_elements);
  const auto row = [&](size_t at) {
    return std::span(sum.values).subspan(at * row_elements, row_elements);
  };
  // Once all new rows are in, the remaining rows are already in place.
  for (size_t to = total; j > 0; --to) {
    const bool from_sum = i > 0 && sum.ids[i - 1] >= ids[j - 1];
    const bool from_new = i == 0 || ids[j - 1] >= sum.ids[i - 1];
    const uint64_t id = from_sum ? sum.ids[i - 1] : ids[j - 1];
    if (from_sum && to != i) std::ranges::copy(row(i - 1), row(to - 1).begin());
    if (from_new) {
      const std::span<const float> own = values.subspan((j - 1) * row_elements, row_elements);
      from_sum ? AddTo(row(to - 1), own) : void(std::ranges::copy(own, row(to - 1).begin()));
    }
    sum.ids[to - 1] = id;
    i -= from_sum ? 1 : 0;
    j -= from_new ? 1 : 0;
  }
}

void AddRowsToAll(std::span<const uint64_t> ids, std::span<const float> values,
                  uint64_t row_elements, uint64_t first_id, std::span<float> all) {
  for (size_t i = 0; i < ids.size(); ++i) {
    AddTo(all.subspan((ids[i] - first_id) * row_elements, row_elements),
          values.subspan(i * row_elements, row_elements));
  }
}

}  // namespace paracord
