// Chooses the Problem that a worker reports to the coordinator if it fails to compute or exchange a
// batch. Limits of a ps or of this machine, and what a program or device cannot do, are
// PROBLEM_LIMIT, which does not count towards rejecting the batch. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "common/limit_error.h"
#include "exchange/state_gone.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns the problem of reading or computing a batch: PROBLEM_LIMIT or `otherwise`.
inline Problem ProblemOfBatch(const absl::Status& error, Problem otherwise) {
  return absl::IsResourceExhausted(error) || absl::IsUnimplemented(error) ||
                 absl::IsFailedPrecondition(error)
             ? PROBLEM_LIMIT
             : otherwise;
}

// Returns the problem of an exchange with the ps. `pushed`: the exchange had a push, so that
// INVALID_ARGUMENT is about the push. PROBLEM_GAP: a ps no longer has the state that the worker has
// asked for, because other workers have gone on.
inline Problem ProblemOfExchange(const absl::Status& error, bool pushed) {
  if (IsStateGone(error)) return PROBLEM_GAP;
  if (IsLimit(error) || absl::IsUnimplemented(error)) return PROBLEM_LIMIT;
  return pushed && absl::IsInvalidArgument(error) ? PROBLEM_SHAPE : PROBLEM_UNREACHABLE;
}

}  // namespace paracord
