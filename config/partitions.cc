#include "config/partitions.h"

#include <cmath>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "config/limits.h"

namespace paracord {
namespace {

constexpr int kRankMax = 8;

// Whether a variable's norm constraint is valid; a variable without one passes, too.
bool IsNorm(const VariableSpec& variable) {
  const NormConstraint& norm = variable.norm();
  for (int i = 0; i < norm.axes_size(); ++i) {
    const auto below = static_cast<uint32_t>(variable.shape_size());
    if (norm.axes(i) >= below || (i > 0 && norm.axes(i) <= norm.axes(i - 1))) return false;
  }
  const bool empty = norm.axes_size() == 0 && variable.has_norm();
  return !empty && norm.least() >= 0 && norm.least() <= norm.most() && std::isfinite(norm.most()) &&
         norm.rate() >= 0 && norm.rate() <= 1;
}

// Says why the variable cannot be a growing table; "" if it can.
std::string WrongGrowing(const VariableSpec& variable) {
  const TableSpec& table = variable.table();
  const double probability = table.admit_probability();
  if (!variable.trainable()) return "is a growing table, and is not trained";
  if (variable.shape(0) > kTableShardsMax) return "is a growing table of too many shards";
  if (table.admit_after() > kAdmitAfterMax) return "admits an id after too many appearances";
  if (table.candidates() > kCandidatesMax) return "counts appearances of too many ids";
  if (!(probability >= 0 && probability <= 1)) return "admits ids with an odd probability";
  if (table.expire_batches() > kExpireBatchesMax) return "has rows that expire too late";
  return "";
}

// Says why the variable cannot be the table that it claims to be; "" if it can, or claims nothing.
std::string WrongTable(const VariableSpec& variable) {
  const TableSpec& table = variable.table();
  if (!variable.has_table()) return "";
  const bool growing = IsGrowing(variable);
  if (!growing && table.kind() != TableSpec::FIXED) return "is a table of a kind that is not known";
  if (variable.shape_size() == 0) return "is a table, and has no rows";
  if (!growing && !table.lazy()) return "";
  const std::string kind = growing ? "is a growing table" : "is a lazy table";
  if (variable.moving_average() > 0) return kind + ", and a moving average";
  if (variable.norm().axes_size() > 0 && variable.norm().axes(0) == 0) {
    return kind + ", and its constraint is of a norm over all rows";
  }
  return growing ? WrongGrowing(variable) : "";
}

}  // namespace

std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  bool empty = false;
  for (const uint64_t dimension : shape) {
    empty = empty || dimension == 0;
    if (dimension != 0 && __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

uint64_t RowElements(const VariableSpec& variable) {
  uint64_t elements = 1;
  for (int i = 1; i < variable.shape_size(); ++i) elements *= variable.shape(i);
  return elements;
}

uint64_t PartitionElements(const VariableSpec& variable, const PartitionSpec& partition) {
  return (partition.row_end() - partition.row_begin()) * RowElements(variable);
}

std::vector<uint64_t> PartitionShape(const VariableSpec& variable, const PartitionSpec& partition) {
  std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
  if (!shape.empty()) shape[0] = partition.row_end() - partition.row_begin();
  return shape;
}

absl::Status CheckVariables(std::span<const VariableSpec> variables) {
  if (variables.size() > kVariablesMax) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", variables.size(),
                                                   " variables, and at most ", kVariablesMax,
                                                   " are supported"));
  }
  absl::flat_hash_set<std::string> names;
  for (const VariableSpec& variable : variables) {
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable \"", OneLine(variable.name(), 200), "\" ", what));
    };
    const double keeps = variable.moving_average();
    const std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
    if (variable.name().empty()) return refuse("has no name");
    if (!IsName(variable.name()))
      return refuse("has a name that is empty or too long, or that has a control character");
    if (variable.name().find(kSlotMark) != std::string::npos) return refuse("is named like a slot");
    if (!names.insert(variable.name()).second) return refuse("stands twice");
    if (variable.dtype() != FLOAT32) return refuse("is not float32");
    if (shape.size() > kRankMax) return refuse("has more than 8 dimensions");
    const std::optional<uint64_t> bytes = TensorBytes(shape, sizeof(float));
    if (!bytes.has_value() || *bytes >> 56 != 0) return refuse("is too large");
    if (*bytes == 0) return refuse("has a dimension of 0");
    if (!(keeps >= 0 && keeps < 1)) return refuse("has a moving average that is not in [0, 1)");
    const std::string& constraint = variable.constraint();
    if (!constraint.empty() && constraint != "non_neg" && constraint != "norm") {
      return refuse("has a constraint that is not known");
    }
    if ((constraint == "norm") != variable.has_norm() || !IsNorm(variable)) {
      return refuse("has a norm constraint that is not valid");
    }
    const std::string wrong_table = WrongTable(variable);
    if (!wrong_table.empty()) return refuse(wrong_table);
  }
  return absl::OkStatus();
}

absl::Status CheckPartition(std::span<const VariableSpec> variables,
                            const PartitionSpec& partition) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition.id(), " \"", partition.name(), "\" ", what));
  };
  if (partition.variable() >= variables.size()) return refuse("is of no known variable");
  const VariableSpec& variable = variables[partition.variable()];
  if (!partition.name().starts_with(absl::StrCat(variable.name(), "/part_"))) {
    return refuse("is not named after its variable");
  }
  const uint64_t rows = variable.shape_size() == 0 ? 1 : variable.shape(0);
  if (partition.row_begin() >= partition.row_end() || partition.row_end() > rows) {
    return refuse(absl::StrCat("has rows [", partition.row_begin(), ", ", partition.row_end(),
                               ") of ", rows));
  }
  if (IsGrowing(variable) && partition.row_end() - partition.row_begin() != 1) {
    return refuse("is of several shards of a growing table");
  }
  return absl::OkStatus();
}

}  // namespace paracord
