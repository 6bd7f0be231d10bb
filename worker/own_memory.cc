#include "worker/own_memory.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/memory_budget.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr uint64_t kMost = MemoryBudget::kUnlimited;  // stands for all larger sums

uint64_t Product(const std::vector<uint64_t>& shape, size_t each) {
  return std::min(TensorBytes(shape, each).value_or(kMost), kMost);
}

// A sum of bytes, at most kMost.
class Sum {
 public:
  void Add(uint64_t times, uint64_t bytes) {
    bytes_ = std::min(bytes_ + Product({times}, std::min(bytes, kMost)), kMost);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

// Returns the bytes of the rows of tables, with ids, in a lane's gradients.
uint64_t RowBytes(std::span<const VariableSpec> variables, const std::vector<uint64_t>& rows) {
  Sum sum;
  for (size_t v = 0; v < std::min(rows.size(), variables.size()); ++v) {
    if (!variables[v].has_table() || !variables[v].trainable()) continue;
    sum.Add(rows[v], RowElements(variables[v]) * sizeof(float) + sizeof(uint64_t));
  }
  return sum.bytes();
}

std::string WhatNeeds(size_t devices) {
  if (devices == 0) return "a copy of the model's variables needs ";
  if (devices == 1) return "a copy of the model's variables and their gradients need ";
  return absl::StrCat("a copy of the model's variables, and gradients and a batch on each of ",
                      devices, " devices need ");
}

}  // namespace

uint64_t BatchBytes(const Batch& schema, uint64_t examples) {
  Sum sum;
  for (const auto* const columns : {&schema.inputs, &schema.targets, &schema.weights}) {
    for (const Column& column : *columns) {
      sum.Add(examples, Product(column.shape, column.text ? sizeof(std::string) : sizeof(float)));
    }
  }
  return sum.bytes();
}

absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, const OwnLoad& load,
                            uint64_t limit) {
  Sum needed;
  needed.Add(1, MemoryBudget::kProgramBytes);
  for (const VariableSpec& variable : variables) {
    if (variable.has_table()) continue;
    const std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
    const uint64_t bytes = Product(shape, sizeof(float));
    needed.Add(1 + (variable.trainable() ? load.devices : 0), bytes);
  }
  if (load.devices > 1) {
    needed.Add(load.devices, load.batch_bytes);
    // The rows of each lane are copied, and the sum may have those of all lanes
    // (LaneDevices::AddUp).
    needed.Add(2 * load.devices, RowBytes(variables, load.rows));
  }
  if (needed.bytes() <= limit) return absl::OkStatus();
  const std::string need = WhatNeeds(load.devices) + HumanBytes(needed.bytes());
  if (load.memory_parts == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(need, ", and --memory-limit is ", HumanBytes(limit)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      need, ", and the worker's part of --memory-limit ", HumanBytes(limit * load.memory_parts),
      " is ", HumanBytes(limit), ": give ", HumanBytes(needed.bytes() * load.memory_parts)));
}

}  // namespace paracord
