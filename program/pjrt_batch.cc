#include "program/pjrt_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "config/shape.h"
#include "program/given_columns.h"

namespace paracord {
namespace {

Shape ShapeOfColumn(const std::vector<uint64_t>& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

absl::Status PjrtBatch::Match(const ProgramFile& file, const Batch& schema,
                              const ProgramTables& tables, bool inputs_alone) {
  file_ = &file;
  schema_ = &schema;
  tables_ = &tables;
  values_.resize(file.variables.size());
  gradients_.resize(file.variables.size());
  RETURN_IF_ERROR(MatchOne("input", file.inputs, schema.inputs, inputs_));
  if (inputs_alone) return CheckIds();
  RETURN_IF_ERROR(MatchOne("target", file.targets, schema.targets, targets_));
  RETURN_IF_ERROR(MatchOne("weight", file.weights, schema.weights, weights_));
  return CheckIds();
}

absl::Status PjrtBatch::MatchOne(const char* what, const std::vector<ProgramColumn>& wanted,
                                 const std::vector<Column>& have, std::vector<Given>& given) {
  if (wanted.size() != have.size()) {
    return absl::InvalidArgumentError(absl::StrCat("model.file: the program takes ", wanted.size(),
                                                   " ", what, "s, and the data have ",
                                                   have.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ProgramColumn& column = wanted[i];
    const std::string name = absl::StrCat(what, " \"", column.name, "\"");
    const auto found = std::ranges::find(have, column.name, &Column::name);
    const bool only = wanted.size() == 1;  // a single column may have any name
    if (found == have.end() && !only) {
      return absl::InvalidArgumentError(absl::StrCat("model.file: the data lack the ", name));
    }
    const size_t index = only ? 0 : static_cast<size_t>(found - have.begin());
    if (have[index].text) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", name, " is strings, and a program of StableHLO is given numbers alone"));
    }
    if (have[index].shape != column.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.file: the program takes ", name, " of shape ",
          ShapeName(ShapeOfColumn(column.shape)), ", and that of the data has the shape ",
          ShapeName(ShapeOfColumn(have[index].shape))));
    }
    Given& one = given.emplace_back();
    one.what = what;
    one.column = &column;
    one.index = index;
    one.each = static_cast<uint64_t>(Elements(ShapeOfColumn(column.shape)));
  }
  return absl::OkStatus();
}

absl::Status PjrtBatch::CheckIds() const {
  for (const auto& [variable, table] : file_->tables) {
    for (const std::string& name : table.columns) {
      const auto found = std::ranges::find(file_->inputs, name, &ProgramColumn::name);
      if (found != file_->inputs.end() && found->type != ColumnType::kFloat32) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "model.file: the table ", OneLine(file_->variables[variable].name(), 200),
          " reads the input \"", OneLine(name, 200), "\", which must be one of int32 or int64"));
    }
  }
  return absl::OkStatus();
}

absl::Status PjrtBatch::Check(const Batch& batch) const {
  if (batch.examples == 0) return absl::InvalidArgumentError("the batch has no examples");
  for (const auto& [what, all, schema, columns] :
       {std::tuple("input", &inputs_, &schema_->inputs, &batch.inputs),
        std::tuple("target", &targets_, &schema_->targets, &batch.targets),
        std::tuple("weight", &weights_, &schema_->weights, &batch.weights)}) {
    RETURN_IF_ERROR(CheckColumnCount(what, schema->size(), columns->size()));
    for (const Given& given : *all) {
      const bool whole = given.column->type != ColumnType::kFloat32;
      RETURN_IF_ERROR(CheckGivenColumn(what, (*schema)[given.index], (*columns)[given.index],
                                       batch.examples, whole));
    }
  }
  return absl::OkStatus();
}

absl::Status PjrtBatch::Narrow(const std::string& name, Given& given) {
  given.narrow.clear();
  for (const int64_t number : given.whole) {
    if (number > std::numeric_limits<int32_t>::max() ||
        number < std::numeric_limits<int32_t>::min()) {
      return absl::InvalidArgumentError(
          absl::StrCat(given.what, " \"", name, "\" has the number ", number,
                       ", and the program takes it as int32: export it with int64"));
    }
    given.narrow.push_back(static_cast<int32_t>(number));
  }
  return absl::OkStatus();
}

absl::Status PjrtBatch::Take(const Batch& batch, const RowsInUse& use) {
  use_ = use;
  for (const auto& [all, columns] :
       {std::pair(&inputs_, &batch.inputs), std::pair(&targets_, &batch.targets),
        std::pair(&weights_, &batch.weights)}) {
    for (Given& given : *all) {
      const Column& column = (*columns)[given.index];
      given.from = &column;
      const std::vector<int64_t>* const numbers =
          all == &inputs_ ? use.Numbers(given.index) : nullptr;
      if (numbers != nullptr) {
        given.whole = *numbers;
      } else if (given.column->type != ColumnType::kFloat32) {
        RETURN_IF_ERROR(ToWholeNumbers(batch, given.what, column, given.whole));
      }
      if (given.column->type == ColumnType::kInt32) RETURN_IF_ERROR(Narrow(column.name, given));
    }
  }
  return absl::OkStatus();
}

const void* PjrtBatch::Rows(Given& given, uint32_t first, uint32_t count, uint32_t size) {
  const auto rows = [&](const auto& numbers) -> const void* {
    const size_t bytes = given.each * sizeof(numbers[0]);
    const auto* const from = numbers.data() + first * given.each;
    if (count == size && IsArrayAligned(from)) return from;
    given.placed.resize(size * bytes);
    if (bytes != 0) std::memcpy(given.placed.data(), from, count * bytes);
    std::fill(given.placed.begin() + static_cast<ptrdiff_t>(count * bytes), given.placed.end(),
              '\0');
    return given.placed.data();
  };
  switch (given.column->type) {
    case ColumnType::kInt32:
      return rows(given.narrow);
    case ColumnType::kInt64:
      return rows(given.whole);
    case ColumnType::kFloat32:
      return rows(given.from->values);
  }
  return nullptr;
}

const void* PjrtBatch::Examples(const ModuleArgument& argument, uint32_t first, uint32_t count,
                                uint32_t size) {
  using Kind = ModuleArgument::Kind;
  std::vector<Given>& given = argument.kind == Kind::kInput    ? inputs_
                              : argument.kind == Kind::kTarget ? targets_
                                                               : weights_;
  return Rows(given[argument.index], first, count, size);
}

void PjrtBatch::SetKey(uint64_t key) {
  key_[0] = static_cast<uint32_t>(key);
  key_[1] = static_cast<uint32_t>(key >> 32);
}

std::vector<PjrtClient::Argument> PjrtBatch::Arguments(const CompiledModule& compiled,
                                                       ConstTensors values, uint32_t first,
                                                       uint32_t count) {
  using Kind = ModuleArgument::Kind;
  std::vector<PjrtClient::Argument> arguments;
  const uint32_t size = compiled.module->batch;
  for (size_t i = 0; i < compiled.arguments.size(); ++i) {
    const ModuleArgument& argument = compiled.module->arguments[i];
    const void* data = key_;
    if (argument.kind == Kind::kVariable) {
      const std::span<const float> whole = values[argument.index];
      data = tables_->by_rows(argument.index) ? Values(argument.index, argument.rows, whole)
                                              : whole.data();
    } else if (argument.kind != Kind::kKey) {
      data = Examples(argument, first, count, size);
    }
    arguments.push_back({&compiled.arguments[i], data});
  }
  return arguments;
}

absl::Status PjrtBatch::CheckRows(const ProgramModule& module) const {
  for (const ModuleArgument& argument : module.arguments) {
    const bool by_rows =
        argument.kind == ModuleArgument::Kind::kVariable && tables_->by_rows(argument.index);
    if (!by_rows) continue;
    const uint64_t rows = use_.Count(argument.index);
    if (rows <= argument.rows) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the batch reads ", rows, " rows of the table ", file_->variables[argument.index].name(),
        ", and the program was exported for ", argument.rows));
  }
  return absl::OkStatus();
}

const float* PjrtBatch::Values(size_t variable, uint64_t rows, std::span<const float> values) {
  AlignedVector<float>& placed = values_[variable];
  placed.resize(rows * tables_->width(variable));
  float* const end = tables_->PutRows(variable, use_, values, placed.data());
  std::fill(end, placed.data() + placed.size(), 0.f);
  return placed.data();
}

float* PjrtBatch::GradientPlace(size_t variable, uint64_t rows) {
  gradients_[variable].resize(rows * tables_->width(variable));
  return gradients_[variable].data();
}

void PjrtBatch::TakeGradient(size_t variable, std::span<float> to) const {
  tables_->TakeGradient(variable, use_, gradients_[variable].data(), to);
}

}  // namespace paracord
