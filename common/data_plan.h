// How many batches and splits there are: the arithmetic of the data plan, which coordinator, ps and
// workers must agree on. Pure functions over DataPlan; a plan that CheckDataPlan refuses has no
// batches. Which records a batch holds is the worker's business (worker/batch_plan.h).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// INVALID_ARGUMENT naming the field that makes the plan unusable: no records, or a zero size.
absl::Status CheckDataPlan(const DataPlan& plan);

uint64_t BatchesPerEpoch(const DataPlan& plan);
uint64_t SplitsPerEpoch(const DataPlan& plan);

// For a job that does not say: 64 splits an epoch, so that nobody waits long for the last one, of
// at least 4 batches, so that reading ahead is worth while, and at most 32.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// `split` counts within its epoch; 0 for a split the epoch does not have.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);

// The batch's place within its epoch, counted in batches.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Records of a batch: plan.batch(), less for the last of an epoch, 0 for a batch that is not there.
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
