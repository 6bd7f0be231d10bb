// A worker's copy of the parameters and the gradients of one batch, and how they travel: what each
// ps is sent and what its answer changes. Belongs to one session, since versions are of one life of
// each ps. Used on the loop; the arrays are read and written by the executor while no exchange is
// under way. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc.h"
#include "common/shared_memory.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Gradients are sent from where they lie.
using GradientArrays = std::vector<std::vector<float, SharedAllocator<float>>>;

// What a ps said of one exchange.
struct ExchangeOutcome {
  uint32_t next = 0;       // least over its partitions; UINT32_MAX where it has none
  bool applied = false;    // by at least one partition
  bool gap = false;        // for at least one
  uint64_t staleness = 0;  // most updates by others since these values were pulled
};

class ParameterCopy {
 public:
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables);

  std::span<const std::span<const float>> values() const { return value_spans_; }
  std::span<const std::span<float>> gradients() const { return gradient_spans_; }
  // Gradients that a call may still be sending must not be overwritten: gives them up for new ones.
  void RenewGradients();

  // A pull alone, or the push of `batch` (with the gradients, or rejected) and a pull.
  Parts Request(uint32_t ps, const std::string& worker, const BatchId* batch, bool rejected) const;
  // Takes over the values and versions that came back. An error says what is wrong with the reply;
  // the copy is then no longer whole and the session has to end.
  absl::StatusOr<ExchangeOutcome> TakeReply(uint32_t ps, bool pushed, const absl::Cord& reply);

  // The first variable with a non-finite gradient, or nullptr.
  const VariableSpec* NonFiniteGradient() const;

 private:
  struct Part {
    uint32_t id = 0;
    uint32_t variable = 0;
    uint64_t offset = 0;  // bytes, in the variable
    uint64_t bytes = 0;
    bool trained = false;
    bool have = false;
    uint64_t updates = 0;  // version of our copy
  };
  Part* FindPart(uint32_t ps, uint32_t id);

  const Session session_;
  const std::vector<VariableSpec> variables_;
  std::vector<std::vector<Part>> parts_;       // by ps
  std::vector<std::vector<float>> values_;     // by variable
  std::shared_ptr<GradientArrays> gradients_;  // shared with calls that are being sent
  std::vector<std::span<const float>> value_spans_;
  std::vector<std::span<float>> gradient_spans_;
};

}  // namespace paracord
