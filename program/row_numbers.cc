#include "program/row_numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

struct Placed {
  uint64_t id;
  uint32_t at;
};

// Sorts by one digit of the ids, stably.
void SortByDigit(int digit, const std::vector<Placed>& from, std::vector<Placed>& to) {
  const int shift = digit * kDigitBits;
  std::array<uint32_t, kDigits> begin{};
  for (const Placed& placed : from) ++begin[placed.id >> shift & (kDigits - 1)];
  uint32_t sum = 0;
  for (uint32_t& count : begin) sum += std::exchange(count, sum);
  for (const Placed& placed : from) to[begin[placed.id >> shift & (kDigits - 1)]++] = placed;
}

}  // namespace

void NumberIds(std::span<const uint64_t> ids, std::vector<uint64_t>& unique,
               std::vector<uint32_t>& places) {
  std::vector<Placed> sorted(ids.size()), other(ids.size());
  uint64_t bits = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    sorted[i] = {ids[i], static_cast<uint32_t>(i)};
    bits |= ids[i];
  }
  const int digits = (static_cast<int>(std::bit_width(bits)) + kDigitBits - 1) / kDigitBits;
  for (int digit = 0; digit < digits; ++digit) {
    SortByDigit(digit, sorted, other);
    sorted.swap(other);
  }
  unique.clear();
  places.resize(ids.size());
  for (const Placed& placed : sorted) {
    if (unique.empty() || unique.back() != placed.id) unique.push_back(placed.id);
    places[placed.at] = static_cast<uint32_t>(unique.size() - 1);
  }
}

void NumberIdsByShard(std::span<const uint64_t> ids, uint64_t count, std::vector<uint64_t>& unique,
                      std::vector<uint32_t>& places, std::vector<uint32_t>& shards) {
  std::vector<uint64_t> ascending;
  NumberIds(ids, ascending, places);
  std::vector<uint32_t> shard(ascending.size());
  shards.assign(count + 1, 0);
  for (size_t i = 0; i < ascending.size(); ++i) {
    shard[i] = ShardOfRow(ascending[i], count);
    ++shards[shard[i] + 1];
  }
  std::partial_sum(shards.begin(), shards.end(), shards.begin());
  std::vector<uint32_t> next = shards, moved(ascending.size());
  unique.resize(ascending.size());
  for (size_t i = 0; i < ascending.size(); ++i) {
    moved[i] = next[shard[i]]++;
    unique[moved[i]] = ascending[i];
  }
  for (uint32_t& place : places) place = moved[place];
}

absl::Status AddIds(const Batch& batch, const Column& column, const IdSpace& space,
                    std::vector<uint64_t>& ids) {
  std::vector<int64_t> whole;
  const auto where = [&](size_t element) {
    return Where(batch, element * batch.examples / column.values.size());
  };
  if (const auto bad = WholeNumbers(column, whole); bad.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where(*bad), ": ", WhyNoId(column.values[*bad])));
  }
  for (size_t k = 0; k < whole.size(); ++k) {
    // WholeNumbers cuts off, as an Embedding does.
    const bool there = whole[k] >= 0 && whole[k] < space.rows && column.values[k] >= 0;
    if (space.rows != 0 && !there) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(k), ": id ", DigitsOf(column, k, whole[k]), " is not in the table of ",
                       space.table, ", whose ", space.rows, " rows are 0 to ", space.rows - 1));
    }
    ids.push_back(static_cast<uint64_t>(whole[k]));
  }
  return absl::OkStatus();
}

}  // namespace paracord
