// A workload whose right result is known exactly, for simulated clusters. Gradients are such that
// SGD with learning rate 1 adds to every element of a trained variable
//   row 0, 2, 4, ...  one for each batch that was applied
//   row 1, 3, 5, ...  the weight of that batch, 1 to 5, a function of its place in the epoch
// so that from a partition's values one reads how many batches it applied and, together with its
// ledger, whether they were the right ones. All sums are small integers, exact in float32. Used as
// a worker uses its workload. It can be told to fail on some batches.
#pragma once

#include <cstdint>
#include <set>

#include "common/job.h"
#include "worker/workload.h"

namespace paracord {

struct CountingOptions {
  uint64_t records = 24;
  uint64_t test_records = 0;
  uint64_t rows = 6;     // of each variable
  uint32_t trained = 1;  // variables "counter:<i>"
  bool frozen = false;   // and one that is never trained
  // Places in the epoch, counted in batches, at which every worker fails.
  std::set<uint64_t> unreadable;
  std::set<uint64_t> nonfinite;
};

float BatchWeight(uint64_t batch_in_epoch);
Workload MakeCountingWorkload(const CountingOptions& options);

}  // namespace paracord
