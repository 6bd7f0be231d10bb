// A Computation is one batch that a worker computes. Its first fields are the trainer's request;
// the others are the results: the loss, and the gradients in the arrays of a step, checked and
// encoded. The loop makes the computation, the executor runs it, and the loop reads the results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/parameter_session.h"

namespace paracord {

struct Computation {
  BatchId batch;
  std::vector<BatchId> upcoming;  // batches whose data the feed may prepare meanwhile, in order
  std::shared_ptr<StepArrays> step;
  bool encodes = true;  // false: the caller calls EncodeComputation later
  SharedRows rows;      // the rows of tables that the batch reads; null: no tables, or not known
  // The gradients are multiplied by this factor. In synchronous training the factor is the number
  // of examples that the data plan gives the lane's batch, divided by the job's batch size
  // (LaneFactor in exchange/lane_sum.h). The ps compute it too, so unreadable records do not change
  // it.
  float factor = 1;
  uint64_t key = 0;                   // the seed of the batch's random numbers (data/batch_plan.h)
  const Batch* batch_read = nullptr;  // the batch that LookAtRows read; valid until the next read
  // With several devices the feed's batch is copied here, because a batch of the feed is valid only
  // until the next batch is read. Null with one device.
  std::shared_ptr<const Batch> own_batch;
  std::vector<BatchId> next;  // the batches whose rows of tables LookAtNext finds

  absl::Status data;   // the error of reading the batch
  absl::Status model;  // the error of computing with the batch
  uint32_t examples = 0;
  double loss = 0;
  std::vector<MetricState> metrics;         // over the batch; none: the program computes none
  std::vector<std::string> left_out;        // names of the unreadable records that were left out
  int64_t took_ms = 0;                      // time until all lanes computed with it were done
  GradientProgram::Losses losses;           // losses of the computing device or process
  const VariableSpec* nonfinite = nullptr;  // the first variable whose gradient is not finite
  std::vector<SharedRows> next_rows;        // rows for each batch of `next`; null: not known yet
  // Names the input that is not finite, if the loss or a gradient is not; "" if all inputs are.
  std::string bad_input;
  // The following lanes whose gradients were added to the gradients of this lane's step.
  std::vector<std::shared_ptr<Computation>> run;
  // Whether the sum of the run cannot be pushed: the sum or its encoding is not finite, or the
  // devices should have added up the gradients, and their sum failed or a lane cannot be pushed.
  bool sum_failed = false;

  // Returns PROBLEM_NONE if the gradients can be pushed; otherwise the kind of problem, with a
  // message.
  Problem problem(std::string& message) const;
};

// Finds which rows of tables the batch reads, and which rows the batches `next` read. Called on the
// executor, before the computation.
void LookAtRows(Computation& computation, Workload& workload);
// Finds the rows of the batches `next` alone. A batch that cannot be read is reported when it is
// computed.
void LookAtNext(Computation& computation, Workload& workload);
// Reads the batch, computes, checks and encodes. Called on the executor.
void RunComputation(Computation& computation, Workload& workload);
// Runs lanes of a round at the same time, each on a device of the workload. With `sums`, the
// gradients of a run of lanes (2, 4, 8, ... that follow each other in the round, and whose first
// number is divisible by how many they are) are added to the gradients of the run's first lane if
// all can be pushed, and the further lanes go to `run` of the first lane. A program with ComputeSum
// adds up the gradients itself if all lanes form one run. A DeviceSum adds up the gradients of the
// first run if that run has all lanes, or one lane for each of the sum's devices.
using Lanes = std::span<const std::shared_ptr<Computation>>;
void RunLanes(Lanes lanes, bool sums, Workload& workload);
// Encodes the gradients of a computation whose `encodes` is false.
void EncodeComputation(Computation& computation, const Workload& workload);

}  // namespace paracord
