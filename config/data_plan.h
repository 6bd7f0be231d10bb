// The arithmetic of the data plan, on which coordinator, ps and workers must agree: numbers of
// batches and splits, and the place of a batch in its epoch. Pure functions of a DataPlan. A plan
// that CheckDataPlan refuses may have no batches. data/batch_plan.h decides which records a batch
// holds.
//
// If the plan has lanes (DataPlan.lanes), a split is a lane, and round r of an epoch is batch r of
// each lane that has so many batches.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The most records of a data set, and the most batches of a job in all epochs: far more than any
// job has, and few enough that their products do not overflow.
inline constexpr uint64_t kRecordsMax = uint64_t{1} << 56;
inline constexpr uint64_t kBatchesMax = uint64_t{1} << 56;
// The most splits of an epoch: a coordinator and a ledger keep a state for each.
inline constexpr uint64_t kSplitsPerEpochMax = uint64_t{1} << 24;
inline constexpr uint32_t kLanesMax = 256;

// Returns a / b, rounded up, without overflow; 0 if b is 0.
uint64_t DivideUp(uint64_t a, uint64_t b);

// INVALID_ARGUMENT names the field that makes the plan unusable: no records or batches, a size of
// 0, a number above a limit, or `split_batches` that does not match the lanes.
absl::Status CheckDataPlan(const DataPlan& plan);
// INVALID_ARGUMENT: `epochs` epochs of the plan have more than kBatchesMax batches.
absl::Status CheckEpochs(const DataPlan& plan, uint64_t epochs);

uint64_t BatchesPerEpoch(const DataPlan& plan);
// Returns the number of records in the batches of an epoch.
uint64_t ExamplesPerEpoch(const DataPlan& plan);
// Returns the number of batches in all epochs, at most kBatchesMax; or, if set, `steps`, at most
// kBatchesMax, rounded up to the end of a round.
uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps);
// Returns `batches`, rounded up to the end of a round if the plan has lanes.
uint64_t UpToEndOfRound(const DataPlan& plan, uint64_t batches);
// Returns the number of rounds in an epoch, which is the number of batches in its longest lane; at
// most the greatest uint32_t. 0 without lanes.
uint32_t RoundsPerEpoch(const DataPlan& plan);
// Returns how many rounds of the job come before round `round` of an epoch. This number names the
// state (the values) with which the round begins.
uint64_t StateBefore(const DataPlan& plan, uint64_t epoch, uint64_t round);
// Returns how many lanes, counted from lane 0, have a batch in a round of an epoch: all lanes,
// except perhaps in the epoch's last round; 0 beyond the last round.
uint32_t LanesOfRound(const DataPlan& plan, uint64_t round);
// Returns how many rounds the first `batches` batches of a job lie in; 0 without lanes.
uint64_t RoundsOfFirst(const DataPlan& plan, uint64_t batches);
uint64_t SplitsPerEpoch(const DataPlan& plan);
// Returns how many splits the first `batches` batches of an epoch lie in.
uint64_t SplitsOf(const DataPlan& plan, uint64_t batches);

// Returns the number of batches in a split if the job does not say it. About 64 splits an epoch
// make the wait for the last split short; but a split has from 4 batches, so that reading ahead
// pays, to 32. If an epoch has more than 2^25 batches, splits are larger: there are about 2^20.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// BatchesInSplit returns the number of batches in split `split` of an epoch; 0 if the epoch has no
// such split. BatchesOfSplit counts only batches that are among the first `batches` of the epoch,
// where a job may end.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);
uint32_t BatchesOfSplit(const DataPlan& plan, uint64_t split, uint64_t batches);

// Returns the number of batches in the first `splits` splits of the job, counted through all
// epochs; nullopt if a uint64_t cannot hold it.
std::optional<uint64_t> BatchesOfFirst(const DataPlan& plan, uint64_t splits);

// Returns the number, within its epoch, of batch `batch` of split `split`.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Returns batch number `place` of an epoch, counted from 0. Beyond the epoch's last batch returns a
// batch for which BatchExamples is 0.
BatchId BatchAt(const DataPlan& plan, uint64_t epoch, uint64_t place);

// Returns the number of records in a batch: plan.batch(), or fewer in the last batch of an epoch; 0
// if the epoch has no such batch. (A plan with drop_last has no short last batch.)
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
