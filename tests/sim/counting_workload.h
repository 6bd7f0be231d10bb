// A workload with a known right result, for simulated clusters. A trained variable has one or more
// equal rows, with an element for each batch of an epoch. SGD with learning rate 1 adds 8^e to
// element b when batch b of epoch e is applied. So the values of a partition are a set of batches
// with a digit per batch and epoch, and a digit above 1 is a batch applied twice. All sums are
// small integers, exact in float32. The loss of batch b, times its examples, is 4^b
// (sim/history_oracle.h). Some batches can be made to fail. A worker uses the workload as any
// other.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"
#include "program/workload.h"

namespace paracord {

inline constexpr uint64_t kCountingEpochsMax = 4;

struct CountingOptions {
  uint64_t records = 24;
  uint64_t batches = 12;  // per epoch
  uint64_t test_records = 0;
  uint64_t rows = 2;     // rows of each variable
  uint32_t trained = 1;  // number of variables "counter:<i>"
  bool frozen = false;   // adds a variable that is not trained
  bool tables = false;   // trained variables are tables, and each batch reads every row
  // Makes the tables grow. `rows` is then the number of shards, and a batch reads id 0 and some
  // random ids.
  bool growing = false;
  bool lazy = false;  // a push updates only the rows it names, and each row counts its steps
  // Draws gradients and the metric "loss" from every bit of the values that a batch reads, instead
  // of counting. A batch computed on wrong values then changes all later values.
  bool mixing = false;
  uint32_t admit_after = 0;
  uint64_t expire_batches = 0;
  uint64_t rows_max = 0;
  // Batches of each epoch that fail on every worker: reading fails, or the gradient is not finite.
  std::set<uint64_t> unreadable;
  std::set<uint64_t> nonfinite;
};

// `devices`: number of devices of the worker, each of which computes a lane.
Workload MakeCountingWorkload(const CountingOptions& options, uint32_t devices = 1);

// Returns how much one applied batch adds to the metric "loss" of an evaluation that counts each
// test record once.
double CountingLossPerBatch(uint64_t test_records);

// Returns the gradient of batch `place` for a trained variable of `elements` elements.
std::vector<float> CountingGradient(const CountingOptions& options, uint64_t epoch, uint64_t place,
                                    uint64_t elements);

// Returns the ids that batches read in growing tables, all or those of one slot.
std::vector<uint64_t> CountingIds();
std::vector<uint64_t> CountingIdsOf(const CountingOptions& options, uint64_t slot);
// Checks a slot of a growing table as CheckCounted checks a partition. `values` has a row for each
// id of CountingIdsOf, zero if the table lacks the row. Without expiry and `rows_max`, each row
// must hold exactly the batches that read its id after its admission.
std::string CheckGrown(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                       uint64_t slot, std::span<const float> values);

// Compares the values of a trained partition with the partition's ledger. Returns "" if each batch
// in the ledger was applied once or rejected, and no other batch was applied. `values` is (rows,
// options.batches); if empty, only the ledger is checked.
std::string CheckCounted(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                         std::span<const float> values);

}  // namespace paracord
