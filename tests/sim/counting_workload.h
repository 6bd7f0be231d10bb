// A workload whose right result is known exactly, for simulated clusters. Every trained variable
// has one row (or more, all the same) with an element for each batch of an epoch. Gradients are
// such that SGD with learning rate 1 adds 8^e to the element of batch b when batch b of epoch e is
// applied: a partition's values are the set of batches that it applied, a digit for each, and a
// digit above 1 is a batch applied twice. All sums are small integers, exact in float32. The loss
// of batch b, times its examples, is 4^b (sim/history_oracle.h). Used as a worker uses its
// workload. It can be told to fail on some batches.
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
  uint64_t batches = 12;  // of an epoch
  uint64_t test_records = 0;
  uint64_t rows = 2;     // of each variable
  uint32_t trained = 1;  // variables "counter:<i>"
  bool frozen = false;   // and one that is never trained
  bool tables = false;   // the trained ones are tables, and each batch reads all of their rows
  // These tables grow: `rows` is the number of their shards, and a batch reads id 0 and some
  // others.
  bool growing = false;
  bool lazy = false;  // a push updates the rows of tables alone, each counting its steps
  // Gradients are drawn from every bit of the values that the batch reads, in place of the counts,
  // so that whatever a batch was computed on shows in all values that follow. The metric "loss" is
  // drawn in the same way.
  bool mixing = false;
  uint32_t admit_after = 0;
  uint64_t expire_batches = 0;
  uint64_t rows_max = 0;
  // Places in the epoch, counted in batches, at which every worker fails.
  std::set<uint64_t> unreadable;
  std::set<uint64_t> nonfinite;
};

// `devices`: on which lanes are computed side by side.
Workload MakeCountingWorkload(const CountingOptions& options, uint32_t devices = 1);

// An evaluation's metric "loss" is this times the batches that the scored parameters have, if each
// test record counted once.
double CountingLossPerBatch(uint64_t test_records);

// Returns the gradient of `elements` elements of a trained variable, for batch `place` of the
// epoch.
std::vector<float> CountingGradient(const CountingOptions& options, uint64_t epoch, uint64_t place,
                                    uint64_t elements);

// The ids of growing tables that any batch reads, and of them those that lie in a slot.
std::vector<uint64_t> CountingIds();
std::vector<uint64_t> CountingIdsOf(const CountingOptions& options, uint64_t slot);
// Checks a slot of a growing table as CheckCounted checks a partition: `values` has a row for each
// of CountingIdsOf, which is zero where the table has none. Where rows neither expire nor make
// room, each has exactly the batches that read it, but for those before it was admitted.
std::string CheckGrown(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                       uint64_t slot, std::span<const float> values);

// Compares the values of a trained partition with its own ledger. Returns "" if each batch of the
// ledger was applied once or rejected, and nothing else was. `values` is rows of `options.batches`;
// if it is empty, only the ledger is checked.
std::string CheckCounted(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                         std::span<const float> values);

}  // namespace paracord
