// The words in which those who compute gradients and those who keep values speak of a step of
// training: whose values, of which rows, and what became of it. They say nothing of processes,
// messages or fences. A ps reads them from an ExchangeRequest. Values; any thread.
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

// The batch that a step enters, with its gradients or, if it is rejected, without.
struct Step {
  BatchId batch;
  bool rejected = false;
  uint32_t lanes = 1;  // from the batch's on, whose gradients it is the sum of
};

// Rows of a partition, in the order in which their values or gradients travel; absent: all.
using Rows = std::optional<RowIds>;

// The gradient that a step brings for a partition.
struct Update {
  uint32_t partition = 0;
  Rows rows;  // that the gradient has
  Encoding encoding = ENCODING_FLOAT32;
  absl::Cord gradient;  // empty: none, which is an update only of rows that are named
};

// The values of a partition that are wanted after the step.
struct Want {
  uint32_t partition = 0;
  Rows rows;
  Encoding encoding = ENCODING_FLOAT32;
  std::optional<uint64_t> have_updates;  // of all rows: not wanted if they are of that count
};

// The moment of the values that are wanted, in a job with lanes: once every lane has entered its
// batches of so many rounds of the job.
struct WantedState {
  uint64_t state = 0;
  int64_t wait_ms = 0;  // how long the answer may wait for that moment
};

// The result of an update.
struct Outcome {
  PushOutcome outcome = PUSH_NONE;
  uint32_t next = 0;     // the first batch of the split that is not entered
  uint64_t updates = 0;  // of the partition, after it
};

struct StepRequest {
  std::optional<Step> step;  // absent: values alone are wanted
  std::vector<Update> updates;
  std::vector<Want> wants;
  std::optional<WantedState> state;      // absent: the values as they are after the step
  std::optional<RoundNorms> norms = {};  // by which a round that waits for them is clipped
};

// "partition <id>: <why>", as INVALID_ARGUMENT.
absl::Status RefusePartition(uint32_t partition, const std::string& why);

// Reads the request but for its fence. INVALID_ARGUMENT names the partition: named twice, pieces
// that are not what was announced, rows that cannot be.
absl::StatusOr<StepRequest> ReadStep(DecodedRequest request);

}  // namespace paracord
