// A batch and what came of it: its data, its loss, and its gradients in the arrays of a step,
// looked at and encoded. Made on the loop, run on the executor, read on the loop again.
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
  std::vector<BatchId> upcoming;  // batches that are probably read after this one
  std::shared_ptr<StepArrays> step;
  bool encodes = true;  // else that is done later
  SharedRows rows;      // of tables, that it reads; null: there are no tables, or it is not known
  // Gradients are multiplied by this: in synchronous training by the share that a batch has of the
  // examples of a whole one (exchange/lane_sum.h), which its ps know from the data plan. So records
  // that are left out because nobody can read them do not count here.
  float factor = 1;
  uint64_t key = 0;                   // of the batch (data/batch_plan.h)
  const Batch* batch_read = nullptr;  // by LookAtRows, and valid until another batch is read
  // With several devices: a copy of the batch, which outlives the reading of others.
  std::shared_ptr<const Batch> own_batch;
  std::vector<BatchId> next;  // whose rows are looked at, too

  absl::Status data;   // reading the batch
  absl::Status model;  // computing with it
  uint32_t examples = 0;
  double loss = 0;
  std::vector<MetricState> metrics;         // over the batch, as it was computed; none if not known
  std::vector<std::string> left_out;        // Batch::left_out
  int64_t took_ms = 0;                      // the computation, with its data
  GradientProgram::Losses losses;           // of what computes, meanwhile
  const VariableSpec* nonfinite = nullptr;  // of its gradient, or of what is to be sent of that
  std::vector<SharedRows> next_rows;        // by `next`; null: not known yet
  std::string bad_input;  // where the batch holds what is not finite, if loss or gradient is not
  // The lanes after this one whose gradients are added to those of this one's step.
  std::vector<std::shared_ptr<Computation>> run;
  bool sum_overflows = false;  // the sum is not finite, or not in what is to be sent of it

  // Whether it can be pushed: PROBLEM_NONE, or why not.
  Problem problem(std::string& message) const;
};

// On the executor, before the computation: which rows of tables it reads, and the next ones.
void LookAtRows(Computation& computation, Workload& workload);
// The next ones alone; what cannot be said of a batch is said when that is computed.
void LookAtNext(Computation& computation, Workload& workload);
// On the executor.
void RunComputation(Computation& computation, Workload& workload);
// Lanes of a round, each on one of the workload's devices and all at the same time. With `sums` the
// gradients of each run of lanes that all can be pushed are added to those of its first lane, which
// then has the others as its `run`.
using Lanes = std::span<const std::shared_ptr<Computation>>;
void RunLanes(Lanes lanes, bool sums, Workload& workload);
// Encodes the gradients of a computation that left it for later.
void EncodeComputation(Computation& computation, const Workload& workload);

}  // namespace paracord
