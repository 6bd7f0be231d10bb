#include "keras/table_ids.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

std::string LayerOf(const VariableSpec& variable) {
  return variable.name().substr(0, variable.name().rfind('/'));
}

}  // namespace

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
    for (const Graph::IdReader& reader : inputs.readers) group.readers.push_back(ReaderOf(reader));
  }
}

TableIds::Reader TableIds::ReaderOf(const Graph::IdReader& reader) const {
  Reader made{.input = reader.input};
  if (reader.weights.has_value()) made.weights = columns_[*reader.weights];
  // Only a mask of the ids themselves hides the id 0 and nothing else.
  made.hides_zero = reader.mask.has_value() && columns_[*reader.mask] == columns_[reader.input];
  return made;
}

// Marks each id used by some reader; empty: all are used.
std::vector<char> TableIds::UsedIds(const Batch& batch, const Group& group,
                                    std::span<const uint64_t> ids) const {
  const auto takes_all = [](const Reader& reader) {
    return !reader.weights.has_value() && !reader.hides_zero;
  };
  std::vector<char> used;
  size_t begin = 0;
  for (const size_t input : group.inputs) {
    const size_t count = batch.inputs[columns_[input]].values.size();
    const auto of_input = [&](const Reader& reader) { return reader.input == input; };
    const bool all = std::ranges::any_of(
        group.readers, [&](const Reader& reader) { return of_input(reader) && takes_all(reader); });
    if (!all) used.resize(ids.size(), 1);
    for (size_t i = 0; i < count && !all; ++i) {
      used[begin + i] = std::ranges::any_of(group.readers, [&](const Reader& reader) {
        if (!of_input(reader)) return false;
        const bool hidden = reader.hides_zero && ids[begin + i] == 0;
        return !hidden &&
               (!reader.weights.has_value() || batch.inputs[*reader.weights].values[i] != 0);
      });
    }
    begin += count;
  }
  return used;
}

// Concatenates the ids of the group's inputs.
absl::Status TableIds::ReadIds(const Batch& batch, const Group& group,
                               std::vector<uint64_t>& ids) const {
  const IdSpace space{LayerOf(variables_[group.smallest]), group.shards == 0 ? group.rows : 0};
  for (const size_t input : group.inputs) {
    RETURN_IF_ERROR(AddIds(batch, batch.inputs[columns_[input]], space, ids));
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
    const std::vector<char> used = UsedIds(batch, group, ids);
    if (!used.empty()) {
      size_t kept = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        if (used[i] != 0) ids[kept++] = ids[i];
      }
      ids.resize(kept);
    }
    if (group.shards == 0) {
      NumberIds(ids, unique, places);
    } else {
      NumberIdsByShard(ids, group.shards, unique, places, shards);
    }
    if (unique.size() > static_cast<size_t>(kPlainRowsMax)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a batch reads ", unique.size(), " rows of the table of ",
                       LayerOf(variables_[group.smallest]), ", and can read ", kPlainRowsMax,
                       ": a smaller \"batch\""));
    }
    const float first = unique.empty() || unique[0] == 0 ? 0.f : 0.5f;
    size_t at = 0, place_at = 0;
    for (const size_t input : group.inputs) {
      std::vector<float>& numbers = rows->numbers[input];
      numbers.resize(batch.inputs[columns_[input]].values.size());
      for (float& number : numbers) {
        if (!used.empty() && used[at++] == 0) {
          number = -1;
          continue;
        }
        const uint32_t place = places[place_at++];
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
