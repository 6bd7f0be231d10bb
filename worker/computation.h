// A Computation is one batch that a worker computes. The trainer makes the Computation and says
// what to compute, on the event loop. The functions below read the batch, compute the loss and the
// gradients, check and encode the gradients in the arrays of a step, and set the results, all on
// the executor. Then the trainer reads the results.
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
  std::vector<BatchId> upcoming;  // the `upcoming` of BatchFeed::Get
  std::shared_ptr<StepArrays> step;
  bool encodes = true;  // false: the trainer calls EncodeComputation later
  SharedRows rows;      // the rows of tables that the batch reads; null: no tables, or not known
  // The gradients are multiplied by this factor. In synchronous training the factor is the number
  // of examples that the data plan gives the lane's batch, divided by the job's batch size
  // (LaneFactor in exchange/lane_sum.h). Unreadable records do not change the factor, because the
  // ps compute the same factor from the data plan.
  float factor = 1;
  uint64_t key = 0;                   // the seed of the batch's random numbers (data/batch_plan.h)
  const Batch* batch_read = nullptr;  // the batch read by LookAtRows; valid until the next is read
  // With several devices the feed's batch is copied here, because a batch of the feed is valid only
  // until the next batch is read. Null with one device.
  std::shared_ptr<const Batch> own_batch;
  std::vector<BatchId> next;  // the batches whose rows of tables LookAtNext finds

  absl::Status data;   // the error of reading the batch
  absl::Status model;  // the error of computing with the batch
  uint32_t examples = 0;
  double loss = 0;
  std::vector<MetricState> metrics;         // GradientProgram::TakeTrainingMetrics
  std::vector<std::string> left_out;        // names of the unreadable records that were left out
  int64_t took_ms = 0;                      // how long this lane and those beside it took together
  GradientProgram::Losses losses;           // GradientProgram::TakeLosses
  const VariableSpec* nonfinite = nullptr;  // the first variable whose gradient is not finite
  std::vector<SharedRows> next_rows;        // rows for each batch of `next`; null: not known yet
  // If the loss or a gradient is not finite: names an input that is not finite; "": all are finite.
  std::string bad_input;
  // The following lanes, whose gradients were added to those of this lane's step or, with
  // sum_failed, should have been.
  std::vector<std::shared_ptr<Computation>> run;
  // Whether the sum of this lane and `run` cannot be pushed: the sum or its encoding is not finite,
  // or the devices were to add up the gradients, and either DeviceSum::Complete failed or the
  // gradients of a lane cannot be pushed.
  bool sum_failed = false;

  // Returns PROBLEM_NONE if the gradients can be pushed; otherwise the problem, and sets `message`.
  Problem problem(std::string& message) const;
};

// Reads the batch and sets which rows of tables it reads; then does LookAtNext. Called on the
// executor, before RunComputation or RunLanes.
void LookAtRows(Computation& computation, Workload& workload);
// Sets which rows of tables the batches `next` read, as far as the feed has prepared these batches.
// Errors are left to the computation of the batch.
void LookAtNext(Computation& computation, Workload& workload);
// Reads the batch, computes the loss and the gradients, and checks and encodes the gradients.
// Called on the executor, with a single device.
void RunComputation(Computation& computation, Workload& workload);
// Does RunComputation for lanes of a round at the same time, each on a device of the workload. With
// `sums`, adds up runs of lanes. A run is 2, 4, 8, ... lanes with consecutive numbers, of which the
// first is divisible by the number of lanes, and whose gradients can all be pushed. The sum of a
// run is left in the step of the run's first lane, whose `run` gets the further lanes. If all lanes
// form one run, a program with ComputeSum adds up the gradients. If the first run has all lanes, or
// one for each of DeviceSum::devices(), a DeviceSum adds up its gradients, except those of tables.
using Lanes = std::span<const std::shared_ptr<Computation>>;
void RunLanes(Lanes lanes, bool sums, Workload& workload);
// Encodes the gradients of a computation whose `encodes` is false.
void EncodeComputation(Computation& computation, const Workload& workload);

}  // namespace paracord
