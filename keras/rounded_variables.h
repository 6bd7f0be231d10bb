// The bfloat16 copies of variables that are operands of products. Owned by the graph.
//
// Invariant: a run uses a copy only after filling the copy in the same run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/ops.h"

namespace paracord {

class RoundedVariables {
 public:
  // True until Resize, and again after Release.
  bool empty() const { return copies_.empty(); }
  // Makes entries for all variables. Reserve then allocates the copy of one variable.
  void Resize(size_t variables) { copies_.resize(variables); }
  absl::Status Reserve(Ops& ops, size_t variable, int64_t floats) {
    if (Has(variable)) return absl::OkStatus();
    absl::StatusOr<DeviceArray> copy = ops.Allocate(floats);
    if (copy.ok()) copies_[variable] = *std::move(copy);
    return copy.status();
  }
  bool Has(size_t variable) const {
    return variable < copies_.size() && copies_[variable] != nullptr;
  }
  void Release() { copies_.clear(); }

  // Begins a run, in which no copy is filled yet.
  void BeginRun() { filled_.assign(copies_.size(), nullptr); }
  // If the variable has a copy, fills it from the variable's values, `floats` numbers at `from`.
  void Fill(Ops& ops, size_t variable, int64_t floats, const float* from) {
    if (!Has(variable)) return;
    auto* const rounded = reinterpret_cast<uint16_t*>(copies_[variable].get());
    ops.Convert(floats, from, Tensor(rounded));
    filled_[variable] = rounded;
  }
  // For each variable its copy if filled in this run, otherwise null; empty if there are no copies.
  const std::vector<const uint16_t*>& filled() const { return filled_; }

 private:
  std::vector<DeviceArray> copies_;  // indexed by variable; null: no copy
  std::vector<const uint16_t*> filled_;
};

}  // namespace paracord
