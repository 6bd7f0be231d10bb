// The step of training as gradient computation and store see it: the batch, its gradients, the
// wanted values, and the outcome, without processes, messages or fences. A ps parses a step from an
// ExchangeRequest. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "exchange/codec.h"
#include "exchange/rows.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The batch that a step enters into the ledgers, with its gradients or as rejected.
struct Step {
  BatchId batch;
  bool rejected = false;
  // A push of several lanes, from the batch's lane on, is the sum of their gradients.
  uint32_t lanes = 1;
};

// Rows of a partition, in the order of their values or gradients; absent: all rows.
using Rows = std::optional<RowIds>;

// The gradient for a partition.
struct Update {
  uint32_t partition = 0;
  Rows rows;  // rows of the gradient
  Encoding encoding = ENCODING_FLOAT32;
  absl::Cord gradient;  // empty: no gradient, but an update of the named rows
};

// The values of a partition to return after the step.
struct Want {
  uint32_t partition = 0;
  Rows rows;
  Encoding encoding = ENCODING_FLOAT32;
  // For all rows: omit the values if the partition's update count equals this.
  std::optional<uint64_t> known_version;
  // No values are returned: the caller has them from another holder of the partition, and asks
  // whether this one has the wanted state.
  bool state_only = false;
};

// Defers the answer, in a job with lanes, until every lane has entered its batches of the job's
// first `state` rounds.
struct WantedState {
  uint64_t state = 0;
  int64_t wait_ms = 0;   // longest delay of the answer
  bool squares = false;  // the answer tells squares of rounds also where no norms are needed
};

// The result of an update.
struct Outcome {
  PushOutcome outcome = PUSH_NONE;
  uint32_t next = 0;     // first batch of the split not entered
  uint64_t updates = 0;  // update count of the partition afterwards
};

struct StepRequest {
  std::optional<Step> step;  // absent: a pull only
  std::vector<Update> updates;
  std::vector<Want> wants;
  std::optional<WantedState> state;      // absent: the values right after the step
  std::optional<RoundNorms> norms = {};  // norms that clip a waiting round
};

// Returns INVALID_ARGUMENT with the text "partition <id>: <why>".
absl::Status RefusePartition(uint32_t partition, const std::string& why);

// Parses a request except for its fence. Returns INVALID_ARGUMENT with the partition's id if a
// partition is named twice, pieces differ from the announced bytes, or rows are malformed.
absl::StatusOr<StepRequest> ReadStep(DecodedRequest request);

}  // namespace paracord
