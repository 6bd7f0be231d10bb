#include "coordinator/core/partitioner.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/limits.h"
#include "config/partitions.h"
#include "nlohmann/json.hpp"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

constexpr uint64_t kElementBytes = sizeof(float);  // float32 is the only dtype
constexpr uint64_t kVariableBytesMax = uint64_t{1} << 62;
// The size of a growing table's shard is unknown. Every shard counts as this many bytes, so each ps
// gets an equal number of shards.
constexpr uint64_t kShardBytes = uint64_t{16} << 20;

// The most bytes that a partition takes in the header of a ps's file: kTensorsMax tensors (values,
// ledger and optimizer slots), each with the partition's name and kTensorTextBytes of other text,
// and the partition's counts.
constexpr uint64_t kTensorsMax = 6;
constexpr uint64_t kTensorTextBytes = 120;
constexpr uint64_t kCountsTextBytes = 120;
uint64_t HeaderBytes(const std::string& name) {
  // As a JSON string, as in the file.
  const nlohmann::json text = name;
  const uint64_t bytes = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).size();
  return kTensorsMax * (bytes + kTensorTextBytes) + bytes + kCountsTextBytes;
}

}  // namespace

absl::StatusOr<VariableSize> SizeOf(const VariableSpec& variable) {
  if (variable.name().empty()) return absl::InvalidArgumentError("a variable has no name");
  VariableSize size{1, kElementBytes};
  for (int axis = 0; axis < variable.shape_size(); ++axis) {
    const uint64_t length = variable.shape(axis);
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", variable.name(), ": axis ", axis, " has length 0"));
    }
    uint64_t& grows = axis == 0 ? size.rows : size.row_bytes;
    const uint64_t other = axis == 0 ? size.row_bytes : size.rows;
    if (length > kVariableBytesMax / grows / other) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", variable.name(), ": is larger than 2^62 bytes"));
    }
    grows *= length;
  }
  return size;
}

uint64_t PartCount(const VariableSize& size, const PartitionerSpec& rule) {
  uint64_t parts = 1;
  switch (rule.kind) {
    case PartitionerSpec::Kind::kFixedShards:
      parts = rule.shards;
      break;
    case PartitionerSpec::Kind::kMinSize:
      // The count is rounded up as in TensorFlow, so parts may be smaller than the "minimum".
      parts = DivideUp(size.rows * size.row_bytes, std::max<uint64_t>(rule.min_shard_bytes, 1));
      break;
    case PartitionerSpec::Kind::kMaxSize:
      parts = DivideUp(size.rows, std::max<uint64_t>(rule.max_shard_bytes / size.row_bytes, 1));
      break;
  }
  if (rule.kind != PartitionerSpec::Kind::kFixedShards && rule.max_shards) {
    parts = std::min(parts, *rule.max_shards);  // wins over max_shard_bytes
  }
  return std::clamp<uint64_t>(parts, 1, size.rows);
}

namespace {

absl::Status TooLarge(const std::string& name, const VariableSize& size, uint64_t bytes) {
  const std::string what = absl::StrCat("variable ", name, ": a partition has ", bytes,
                                        " bytes, at most ", kPartitionBytesMax, " are possible");
  if (size.row_bytes > kPartitionBytesMax) return absl::InvalidArgumentError(what);
  return absl::InvalidArgumentError(
      absl::StrCat(what, "; use {\"partitioner\": {\"kind\": \"max_size\", \"max_shard_bytes\": ",
                   kPartitionBytesMax, "}}"));
}

// A norm over axis 0 needs all rows in one partition.
absl::Status CheckNorm(const VariableSpec& variable, uint64_t parts, uint64_t bytes) {
  if (parts == 1 || variable.norm().axes_size() == 0 || variable.norm().axes(0) != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "variable ", variable.name(), ": its constraint is of a norm over axis 0, along which it is ",
      "cut into ", parts, " partitions; use {\"partitioner\": {\"kind\": \"min_size\", ",
      "\"min_shard_bytes\": ", bytes, "}}, or another axis of the constraint"));
}

}  // namespace

absl::StatusOr<std::vector<PartitionSpec>> PartitionVariables(
    std::span<const VariableSpec> variables, const PartitionerSpec& rule) {
  std::vector<PartitionSpec> partitions;
  std::set<std::string> names;
  uint64_t header_bytes = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    ASSIGN_OR_RETURN(const VariableSize size, SizeOf(variables[v]));
    const std::string& name = variables[v].name();
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two variables have the name ", name));
    }
    const uint64_t parts = IsGrowing(variables[v]) ? size.rows : PartCount(size, rule);
    if (parts > kPartitionsMax - partitions.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable ", name, ": partitioner asks for more than ", kPartitionsMax, " partitions"));
    }
    header_bytes += parts * HeaderBytes(name);
    if (header_bytes > kSafetensorsHeaderMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", name, ": names of ", partitions.size() + parts,
                       " partitions do not fit a checkpoint; have fewer, or shorter names"));
    }
    RETURN_IF_ERROR(CheckNorm(variables[v], parts, size.rows * size.row_bytes));
    const uint64_t largest = DivideUp(size.rows, parts) * size.row_bytes;
    if (largest > kPartitionBytesMax) return TooLarge(name, size, largest);
    uint64_t row = 0;
    for (uint64_t part = 0; part < parts; ++part) {
      PartitionSpec& spec = partitions.emplace_back();
      spec.set_id(static_cast<uint32_t>(partitions.size() - 1));
      spec.set_variable(static_cast<uint32_t>(v));
      spec.set_name(absl::StrCat(name, "/part_", part));
      spec.set_row_begin(row);
      row += size.rows / parts + (part < size.rows % parts ? 1 : 0);
      spec.set_row_end(row);
    }
  }
  if (std::none_of(variables.begin(), variables.end(),
                   [](const VariableSpec& variable) { return variable.trainable(); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is nothing to train: none of the model's ", variables.size(),
                     " variables is trainable"));
  }
  return partitions;
}

std::vector<uint64_t> PartitionBytes(std::span<const VariableSpec> variables,
                                     std::span<const PartitionSpec> partitions) {
  std::vector<uint64_t> bytes;
  bytes.reserve(partitions.size());
  for (const PartitionSpec& partition : partitions) {
    const VariableSpec& variable = variables[partition.variable()];
    bytes.push_back(IsGrowing(variable) ? kShardBytes
                                        : PartitionElements(variable, partition) * kElementBytes);
  }
  return bytes;
}

}  // namespace paracord
