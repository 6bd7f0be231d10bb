// A step of training as the gradient computation and the ps's store see it: the batch, its
// gradients, the wanted values, and the outcome, without processes, messages or fences. A ps parses
// a step from an ExchangeRequest. Plain values; any thread.
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
  // Above 1: the gradients are summed over so many lanes, from the batch's lane on.
  uint32_t lanes = 1;
};

// Ids of rows of a partition, in the order of their values or gradients; absent: all rows.
using Rows = std::optional<RowIds>;

// The gradient that a step has for a partition.
struct Update {
  uint32_t partition = 0;
  Rows rows;  // the rows that the gradient has
  Encoding encoding = ENCODING_FLOAT32;
  absl::Cord gradient;  // encoded; empty: the batch has none, or `rows` is empty
};

// The values of a partition that the answer to a step is to have.
struct Want {
  uint32_t partition = 0;
  Rows rows;
  Encoding encoding = ENCODING_FLOAT32;
  // If all rows are wanted: the answer omits the values if the partition's update count is this.
  std::optional<uint64_t> known_version;
  // The answer has no values: the caller has them from another holder of the partition, and asks
  // whether this holder has the wanted state.
  bool state_only = false;
};

// In a job with lanes: delays the answer until every lane has entered its batches of the job's
// first `state` rounds. Squares and norms: round_norms.h.
struct WantedState {
  uint64_t state = 0;
  int64_t wait_ms = 0;   // longest delay of the answer
  bool squares = false;  // the answer has sums of squares even if this ps needs no norms
};

// The result of a step for a partition.
struct Outcome {
  PushOutcome outcome = PUSH_NONE;
  uint32_t next = 0;     // first batch of the split neither entered nor in a round's sum
  uint64_t updates = 0;  // the partition's update count after the step
};

struct StepRequest {
  std::optional<Step> step;  // absent: values are wanted, and no batch is entered
  std::vector<Update> updates;
  std::vector<Want> wants;
  std::optional<WantedState> state;      // absent: the values right after the step are wanted
  std::optional<RoundNorms> norms = {};  // norms by which a waiting round is clipped
};

// Returns INVALID_ARGUMENT with the text "partition <id>: <why>".
absl::Status RefusePartition(uint32_t partition, const std::string& why);

// Parses a request except for its fence. INVALID_ARGUMENT: a push without a batch; or, with the
// partition's id, a partition named twice, other bytes in pieces than announced, or malformed rows.
absl::StatusOr<StepRequest> ReadStep(DecodedRequest request);

}  // namespace paracord
