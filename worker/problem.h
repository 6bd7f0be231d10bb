// Which problem a worker reports for the status that ended its work on a batch. Only what is wrong
// with the batch itself may count against the batch: limits of a ps or of this machine, and what a
// program or device cannot do, are PROBLEM_LIMIT. Pure.
#pragma once

#include "absl/status/status.h"
#include "common/limit_error.h"
#include "exchange/state_gone.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The problem of reading a batch or computing with it; `otherwise` counts against the batch.
inline Problem ProblemOfBatch(const absl::Status& error, Problem otherwise) {
  return absl::IsResourceExhausted(error) || absl::IsUnimplemented(error) ||
                 absl::IsFailedPrecondition(error)
             ? PROBLEM_LIMIT
             : otherwise;
}

// The problem of an exchange with the ps. A ps that refuses a push names the fault of the push. A
// ps no longer has the wanted state if this worker is behind all others.
inline Problem ProblemOfExchange(const absl::Status& error, bool pushed) {
  if (IsStateGone(error)) return PROBLEM_GAP;
  if (IsLimit(error) || absl::IsUnimplemented(error)) return PROBLEM_LIMIT;
  return pushed && absl::IsInvalidArgument(error) ? PROBLEM_SHAPE : PROBLEM_UNREACHABLE;
}

}  // namespace paracord
