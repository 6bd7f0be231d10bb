#include "keras/table_ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

struct Placed {
  uint64_t id;
  uint32_t at;
};

// Sorts by one digit of the ids, and keeps the order of equal ones.
void SortByDigit(int digit, const std::vector<Placed>& from, std::vector<Placed>& to) {
  const int shift = digit * kDigitBits;
  std::array<uint32_t, kDigits> begin{};
  for (const Placed& placed : from) ++begin[placed.id >> shift & (kDigits - 1)];
  uint32_t sum = 0;
  for (uint32_t& count : begin) sum += std::exchange(count, sum);
  for (const Placed& placed : from) to[begin[placed.id >> shift & (kDigits - 1)]++] = placed;
}

std::string LayerOf(const VariableSpec& variable) {
  return variable.name().substr(0, variable.name().rfind('/'));
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

TableIds::TableIds(const Graph& graph, std::vector<size_t> columns, int64_t batch)
    : columns_(std::move(columns)),
      variables_(graph.variables()),
      rows_max_(graph.variables().size()) {
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!variables_[v].has_table()) continue;
    const auto rows = static_cast<int64_t>(variables_[v].shape(0));
    const Graph::TableInputs inputs = graph.InputsOfTable(v);
    const bool growing = IsGrowing(variables_[v]);
    rows_max_[v] = growing ? batch * inputs.ids : std::min(rows, batch * inputs.ids);
    const auto same = std::ranges::find(groups_, inputs.inputs, &Group::inputs);
    Group& group = same == groups_.end() ? groups_.emplace_back() : *same;
    group.inputs = inputs.inputs;
    group.shards = growing ? variables_[v].shape(0) : 0;
    if (group.variables.empty() || rows < group.rows) {
      group.smallest = v;
      group.rows = rows;
    }
    group.variables.push_back(v);
  }
}

// One input's after the other's.
absl::Status TableIds::ReadIds(const Batch& batch, const Group& group,
                               std::vector<uint64_t>& ids) const {
  std::vector<int64_t> whole;
  for (const size_t input : group.inputs) {
    const Column& column = batch.inputs[columns_[input]];
    const auto where = [&](size_t element) {
      return Where(batch, element * batch.examples / column.values.size());
    };
    if (const auto bad = WholeNumbers(column, whole); bad.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(where(*bad), ": id ", column.values[*bad],
                                                     " is no whole number that float32 tells from "
                                                     "others; give it as an integer"));
    }
    for (size_t k = 0; k < whole.size(); ++k) {
      // WholeNumbers cuts off, as an Embedding does.
      const bool there = whole[k] >= 0 && whole[k] < group.rows && column.values[k] >= 0;
      if (group.shards != 0 || there) {
        ids.push_back(static_cast<uint64_t>(whole[k]));
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(where(k), ": id ", whole[k], " is not in the table of ",
                       LayerOf(variables_[group.smallest]), ", whose ", group.rows,
                       " rows are 0 to ", group.rows - 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const NumberedRows>> TableIds::RowsOf(const Batch& batch) const {
  auto rows = std::make_shared<NumberedRows>();
  rows->ids.resize(variables_.size());
  rows->shards.resize(variables_.size());
  rows->numbers.resize(columns_.size());
  std::vector<uint64_t> ids, unique;
  std::vector<uint32_t> places, shards;
  for (const Group& group : groups_) {
    ids.clear();
    RETURN_IF_ERROR(ReadIds(batch, group, ids));
    if (group.shards == 0) {
      NumberIds(ids, unique, places);
    } else {
      NumberIdsByShard(ids, group.shards, unique, places, shards);
    }
    if (unique.size() > static_cast<size_t>(kPlainRowsMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch reads ", unique.size(), " rows of the table of ",
                       LayerOf(variables_[group.smallest]), ", more than ", kPlainRowsMax));
    }
    const float first = unique.empty() || unique[0] == 0 ? 0.f : 0.5f;
    size_t at = 0;
    for (const size_t input : group.inputs) {
      std::vector<float>& numbers = rows->numbers[input];
      numbers.resize(batch.inputs[columns_[input]].values.size());
      for (float& number : numbers) {
        const uint32_t place = places[at++];
        number = place == 0 ? first : static_cast<float>(place);
      }
    }
    for (const size_t variable : group.variables) {
      rows->ids[variable] = unique;
      if (group.shards != 0) rows->shards[variable] = shards;
    }
  }
  return rows;
}

bool TableIds::growing(size_t input) const {
  return std::ranges::any_of(groups_, [&](const Group& group) {
    return group.shards != 0 && std::ranges::find(group.inputs, input) != group.inputs.end();
  });
}

std::shared_ptr<const NumberedRows> TableIds::Widest(const Batch& batch) const {
  const auto rows = std::make_shared<NumberedRows>();
  rows->ids.resize(variables_.size());
  rows->numbers.resize(columns_.size());
  for (const Group& group : groups_) {
    for (const size_t variable : group.variables) {
      rows->ids[variable].resize(static_cast<size_t>(rows_max_[variable]));
      std::iota(rows->ids[variable].begin(), rows->ids[variable].end(), 0);
    }
    for (const size_t input : group.inputs) {
      rows->numbers[input].assign(batch.inputs[columns_[input]].values.size(), 0);
    }
  }
  return rows;
}

}  // namespace paracord
