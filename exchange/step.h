// A step of training: the batch, its gradients, the wanted values, and the outcome. These types are
// for the code that works on gradients and values, and leave out who sends a step, how, and to
// which ps. A ps parses a step from an ExchangeRequest. Plain values; any thread.
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

// Ids of rows of a partition, in the order of the rows' values or gradients; nullopt: all rows.
using Rows = std::optional<RowIds>;

// The gradient that a step has for a partition.
struct Update {
  uint32_t partition = 0;
  Rows rows;  // the rows that the gradient has
  Encoding encoding = ENCODING_FLOAT32;
  absl::Cord gradient;  // encoded; empty: the batch has no gradient here, or `rows` is empty
};

// The values of a partition that the answer to a step is to have.
struct Want {
  uint32_t partition = 0;
  Rows rows;
  Encoding encoding = ENCODING_FLOAT32;
  // If all rows are wanted: the answer has no values if the partition's update count equals this.
  std::optional<uint64_t> known_version;
  // The answer has no values: the caller has them from another holder of the partition, and asks
  // whether this holder has the wanted state.
  bool state_only = false;
};

// In a job with lanes: the wanted values contain the batches of the job's first `state` rounds, and
// in synchronous training no later ones. The answer waits until there are such values, but at most
// `wait_ms`: then it says that they are not there yet.
struct WantedState {
  uint64_t state = 0;
  int64_t wait_ms = 0;
  // In a job that clips by norm (round_norms.h): the answer has the sums of squares even if this ps
  // can clip without those of other ps.
  bool squares = false;
};

// The result of a step for a partition.
struct Outcome {
  PushOutcome outcome = PUSH_NONE;
  // The first batch of the split that is neither in the ledger nor in the sum of a waiting round.
  uint32_t next = 0;
  uint64_t updates = 0;  // the partition's update count after the step
};

struct StepRequest {
  std::optional<Step> step;  // absent: values are wanted, and no batch is entered
  std::vector<Update> updates;
  std::vector<Want> wants;
  std::optional<WantedState> state;  // absent: the values right after the step are wanted
  // Sums of squares over all ps (round_norms.h), by which a round that waits for them is clipped.
  std::optional<RoundNorms> norms = {};
};

// Returns INVALID_ARGUMENT with the text "partition <id>: <why>".
absl::Status RefusePartition(uint32_t partition, const std::string& why);

// Parses what a request has of these types; leaves out the fence, proofs and the like.
// INVALID_ARGUMENT: a push without a batch; or, with the partition's id, a partition named twice,
// other bytes in pieces than announced, or malformed rows.
absl::StatusOr<StepRequest> ReadStep(DecodedRequest request);

}  // namespace paracord
