#include "program/program_tables.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "config/shape.h"
#include "config/tables.h"
#include "config/unknown_name.h"
#include "program/given_columns.h"
#include "program/row_numbers.h"

namespace paracord {
namespace {

// Returns the name of a table for people: the layer or module of its variable.
std::string OwnerOf(const std::string& variable) {
  return variable.substr(0, variable.find_last_of("./"));
}

bool Names(const std::string& key, const VariableSpec& variable) {
  return key == variable.name() || key == OwnerOf(variable.name());
}

void ReportUnknownTables(const Job& job, const ProgramHello& hello, Problems& problems) {
  std::vector<std::string_view> known;
  std::vector<std::string> owners;
  for (const auto& [v, table] : hello.tables) owners.push_back(OwnerOf(hello.variables[v].name()));
  for (const auto& [v, table] : hello.tables) known.push_back(hello.variables[v].name());
  known.insert(known.end(), owners.begin(), owners.end());
  for (const auto& [key, table] : job.tables.by_layer) {
    const bool found = std::ranges::any_of(hello.tables, [&, &key = key](const auto& each) {
      return Names(key, hello.variables[each.first]);
    });
    if (found) continue;
    problems.Add(absl::StrCat("tables.", key),
                 known.empty() ? "the program declares no table"
                               : absl::StrCat("names no table of the program; \"", key, "\"",
                                              NotSupported(key, known)));
  }
}

TablesSpec::Table KindOf(const Job& job, const VariableSpec& variable) {
  for (const auto& [key, table] : job.tables.by_layer) {
    if (Names(key, variable)) return table;
  }
  return {.dense = !job.tables.automatic};
}

// The reason why a variable cannot be a table of this kind; "" if it can.
std::string WhyNotTable(const Job& job, const VariableSpec& variable,
                        const TablesSpec::Table& kind) {
  if (kind.dense || kind.lazy) return "";
  std::string why = WhyRowsDiffer(kind.optimizer.has_value() ? *kind.optimizer : job.optimizer);
  if (why.empty() && !variable.constraint().empty()) why = "its constraint acts on every row";
  if (why.empty()) return "";
  return absl::StrCat("cannot be a table as it is: ", why, "; \"tables\": {\"",
                      OneLine(OwnerOf(variable.name()), 200),
                      "\": {\"update\": \"lazy\"}} acts on the rows of a batch alone",
                      kind.growing ? "" : ", \"kind\": \"dense\" moves all of it");
}

}  // namespace

absl::StatusOr<ProgramTables> ProgramTables::Make(const Job& job, const ProgramHello& hello,
                                                  const Batch& schema,
                                                  std::vector<VariableSpec>& variables) {
  ProgramTables tables;
  tables.dense_.resize(variables.size());
  tables.most_.resize(variables.size());
  tables.room_.rows.resize(variables.size());
  for (const VariableSpec& variable : variables) tables.widths_.push_back(RowElements(variable));
  tables.variables_ = variables;
  Problems problems;
  ReportUnknownTables(job, hello, problems);
  for (const auto& [v, declared] : hello.tables) {
    VariableSpec& variable = variables[v];
    const TablesSpec::Table kind = KindOf(job, variable);
    const std::string why = WhyNotTable(job, variable, kind);
    if (!why.empty()) problems.Add(absl::StrCat("tables.", OwnerOf(variable.name())), why);
    tables.Add(v, declared, kind, schema, job.batch, problems);
    if (kind.dense) continue;
    *variable.mutable_table() = TableSpecOf(kind);
    if (kind.growing) MakeGrowing(variable, kind.shards);
    tables.any_ = true;
  }
  RETURN_IF_ERROR(problems.ToStatus());
  tables.variables_ = variables;
  RETURN_IF_ERROR(CheckVariables(variables));
  return tables;
}

void ProgramTables::Add(size_t variable, const DeclaredTable& declared,
                        const TablesSpec::Table& kind, const Batch& schema, uint64_t batch,
                        Problems& problems) {
  const std::string key = absl::StrCat("table ", OneLine(variables_[variable].name(), 200));
  Group wanted;
  wanted.dense = kind.dense;
  wanted.shards = kind.growing ? kind.shards : 0;
  uint64_t ids = 0;
  for (const std::string& name : declared.columns) {
    const auto found = std::ranges::find(schema.inputs, name, &Column::name);
    if (found == schema.inputs.end()) {
      return problems.Add(key, absl::StrCat("reads ids of an input \"", OneLine(name, 200),
                                            "\" that the data lack"));
    }
    room_.inputs.insert(name);
    wanted.inputs.push_back(static_cast<size_t>(found - schema.inputs.begin()));
    uint64_t each = batch;
    for (const uint64_t axis : found->shape) each *= axis;
    ids += each;
  }
  std::ranges::sort(wanted.inputs);
  const uint64_t rows = kind.growing ? 0 : variables_[variable].shape(0);
  most_[variable] = declared.capacity == 0 ? ids : std::min(ids, declared.capacity);
  room_.rows[variable] = kind.dense     ? rows
                         : kind.growing ? most_[variable] + 1
                                        : std::min(most_[variable] + 1, rows);
  dense_[variable] = kind.dense;
  const auto meets = std::ranges::find_if(groups_, [&](const Group& group) {
    return std::ranges::find_first_of(group.inputs, wanted.inputs) != group.inputs.end();
  });
  const bool alone = meets == groups_.end();
  Group& group = alone ? groups_.emplace_back(wanted) : *meets;
  if (group.inputs != wanted.inputs || group.shards != wanted.shards ||
      group.dense != wanted.dense) {
    return problems.Add(key, absl::StrCat("reads an input that ", variables_[group.smallest].name(),
                                          " reads, too: both must read the same inputs and be of "
                                          "one kind, with as many shards"));
  }
  if (group.variables.empty() || rows < group.rows) {
    group.smallest = variable;
    group.rows = rows;
  }
  group.variables.push_back(variable);
}

std::string ProgramTables::Describe(size_t variable) const {
  if (!declared(variable)) return "";
  if (dense_[variable]) return ", a table that moves whole";
  return absl::StrCat(IsGrowing(variables_[variable]) ? ", a growing table" : ", a table",
                      ", of which at most ", most_[variable], " rows a batch travel");
}

void ProgramTables::Number(const Group& group, const Batch& batch, std::vector<uint64_t>& ids,
                           ProgramRows& rows) const {
  std::vector<uint64_t> unique;
  std::vector<uint32_t> places, shards;
  if (group.shards != 0) {
    NumberIdsByShard(ids, group.shards, unique, places, shards);
  } else if (!group.dense) {
    NumberIds(ids, unique, places);
  }
  const int64_t first = unique.empty() || unique[0] != 0 ? 1 : 0;
  size_t at = 0;
  for (const size_t input : group.inputs) {
    std::vector<int64_t>& numbers = rows.numbers[input];
    numbers.resize(batch.inputs[input].values.size());
    for (int64_t& number : numbers) {
      number = group.dense ? static_cast<int64_t>(ids[at]) : first + places[at];
      ++at;
    }
  }
  for (const size_t variable : group.variables) {
    rows.ids[variable] = unique;
    rows.shards[variable] = shards;
  }
}

absl::StatusOr<std::shared_ptr<const ProgramRows>> ProgramTables::RowsOf(const Batch& batch) const {
  const auto rows = std::make_shared<ProgramRows>();
  rows->ids.resize(variables_.size());
  rows->shards.resize(variables_.size());
  rows->numbers.resize(batch.inputs.size());
  std::vector<uint64_t> ids;
  for (const Group& group : groups_) {
    ids.clear();
    const IdSpace space{variables_[group.smallest].name(), static_cast<int64_t>(group.rows)};
    for (const size_t input : group.inputs) {
      RETURN_IF_ERROR(CheckNoFractions(batch, "input", batch.inputs[input]));
      RETURN_IF_ERROR(AddIds(batch, batch.inputs[input], space, ids));
    }
    Number(group, batch, ids, *rows);
  }
  return rows;
}

absl::Status ProgramTables::CheckRoom(const ProgramRows& rows) const {
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (rows.ids[v].size() <= most_[v]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a batch reads ", rows.ids[v].size(), " rows of the table ",
                     variables_[v].name(), ", for which the program has the capacity ", most_[v]));
  }
  return absl::OkStatus();
}

absl::StatusOr<RowsInUse> ProgramTables::InUse(const Batch& batch,
                                               const std::shared_ptr<const TableRows>& rows) const {
  if (!declares()) return RowsInUse();
  RowsInUse use{std::dynamic_pointer_cast<const ProgramRows>(rows)};
  if (use.rows != nullptr) return use;
  use.whole = true;
  ASSIGN_OR_RETURN(use.rows, RowsOf(batch));
  return use;
}

float* ProgramTables::PutRows(size_t variable, const RowsInUse& use, std::span<const float> values,
                              float* to) const {
  const uint64_t width = widths_[variable];
  to = std::fill_n(to, use.rows->First(variable) * width, 0.f);
  if (!use.whole) return std::ranges::copy(values, to).out;
  for (const uint64_t id : use.rows->ids[variable]) {
    to = std::ranges::copy(values.subspan(id * width, width), to).out;
  }
  return to;
}

void ProgramTables::TakeGradient(size_t variable, const RowsInUse& use, const float* from,
                                 std::span<float> to) const {
  const uint64_t width = widths_[variable];
  from += use.rows->First(variable) * width;
  if (!use.whole) {
    std::copy_n(from, to.size(), to.data());
    return;
  }
  std::ranges::fill(to, 0.f);
  for (const uint64_t id : use.rows->ids[variable]) {
    std::copy_n(from, width, to.subspan(id * width).data());
    from += width;
  }
}

}  // namespace paracord
