// How many batches and splits there are: the arithmetic of the data plan, which coordinator, ps and
// workers must agree on. Pure functions over DataPlan; a plan that CheckDataPlan refuses has no
// batches. Which records a batch holds is the worker's business (data/batch_plan.h).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Records of a data set, and batches of a job through all its epochs: far above any job, far below
// where their products overflow.
inline constexpr uint64_t kRecordsMax = uint64_t{1} << 56;
inline constexpr uint64_t kBatchesMax = uint64_t{1} << 56;
// What a coordinator and a ledger may have to keep apart.
inline constexpr uint64_t kSplitsPerEpochMax = uint64_t{1} << 24;

// a / b, rounded up, where a + b may overflow; 0 if b is.
uint64_t DivideUp(uint64_t a, uint64_t b);

// INVALID_ARGUMENT naming the field that makes the plan unusable: no records, a zero size, or more
// than the limits above.
absl::Status CheckDataPlan(const DataPlan& plan);
// Of a checked plan: that so many epochs are not above kBatchesMax. INVALID_ARGUMENT.
absl::Status CheckEpochs(const DataPlan& plan, uint64_t epochs);

uint64_t BatchesPerEpoch(const DataPlan& plan);
// Of `epochs`, or `steps` where there are some; at most kBatchesMax.
uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps);
uint64_t SplitsPerEpoch(const DataPlan& plan);

// For a job that does not say: 64 splits an epoch, so that nobody waits long for the last one, of
// at least 4 batches, so that reading ahead is worth while, and at most 32, or what keeps an epoch
// of very many batches at 2^20 splits.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// `split` counts within its epoch; 0 for a split the epoch does not have.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);

// The batch's place within its epoch, counted in batches.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Records of a batch: plan.batch(), less for the last of an epoch, 0 for a batch that is not there.
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
