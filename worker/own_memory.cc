#include "worker/own_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/memory_budget.h"
#include "config/partitions.h"

namespace paracord {

absl::Status CheckOwnMemory(std::span<const VariableSpec> variables, size_t devices,
                            uint64_t limit) {
  constexpr uint64_t kMax = MemoryBudget::kUnlimited;
  uint64_t needed = MemoryBudget::kProgramBytes;
  for (const VariableSpec& variable : variables) {
    if (variable.table().kind() != TableSpec::KIND_UNSPECIFIED) continue;
    const std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
    const uint64_t bytes = std::min(TensorBytes(shape, sizeof(float)).value_or(kMax), kMax);
    needed = std::min(needed + bytes, kMax);
    for (size_t i = 0; i < devices && variable.trainable(); ++i) {
      needed = std::min(needed + bytes, kMax);
    }
  }
  if (needed <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a copy of the model's variables",
      devices == 0   ? std::string(" needs ")
      : devices == 1 ? std::string(" and their gradients need ")
                     : absl::StrCat(" and their gradients on ", devices, " devices need "),
      HumanBytes(needed), ", and --memory-limit is ", HumanBytes(limit)));
}

}  // namespace paracord
