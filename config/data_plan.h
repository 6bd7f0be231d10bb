// The arithmetic of the data plan, on which coordinator, ps and workers must agree: counts of
// batches and splits, and the place of a batch in its epoch. Pure functions over DataPlan; a plan
// that CheckDataPlan refuses has no batches. data/batch_plan.h decides which records a batch holds.
//
// With lanes (DataPlan.lanes) a split is a lane, and round r of an epoch is batch r of each lane
// that is long enough.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The most records of a data set, and the most batches of a job in all epochs: far above any job,
// and far below where their products overflow.
inline constexpr uint64_t kRecordsMax = uint64_t{1} << 56;
inline constexpr uint64_t kBatchesMax = uint64_t{1} << 56;
// The most splits of an epoch: a coordinator and a ledger keep a state for each split.
inline constexpr uint64_t kSplitsPerEpochMax = uint64_t{1} << 24;
inline constexpr uint32_t kLanesMax = 256;

// Returns a / b, rounded up, even if a + b overflows; 0 if b is 0.
uint64_t DivideUp(uint64_t a, uint64_t b);

// Returns INVALID_ARGUMENT naming the field that makes the plan unusable: no records, a size of 0,
// a number above a limit, or `split_batches` that does not match the lanes.
absl::Status CheckDataPlan(const DataPlan& plan);
// Returns INVALID_ARGUMENT if `epochs` epochs of a checked plan have more than kBatchesMax batches.
absl::Status CheckEpochs(const DataPlan& plan, uint64_t epochs);

uint64_t BatchesPerEpoch(const DataPlan& plan);
// Returns the number of records in the batches of an epoch.
uint64_t ExamplesPerEpoch(const DataPlan& plan);
// Returns the number of batches in all epochs, or `steps` if set, rounded up to the end of a round;
// at most kBatchesMax and a round.
uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps);
// Returns `batches`, rounded up to the end of a round if the plan has lanes.
uint64_t UpToEndOfRound(const DataPlan& plan, uint64_t batches);
// Returns the number of rounds in an epoch, which is the number of batches in its longest lane; at
// most the greatest uint32_t. 0 without lanes.
uint32_t RoundsPerEpoch(const DataPlan& plan);
// Returns the number of rounds of the job before a round of an epoch: the number of the state (the
// values) that the round begins with. `round` is also the number of its batch in each lane.
uint64_t StateBefore(const DataPlan& plan, uint64_t epoch, uint64_t round);
// Returns how many lanes, counted from lane 0, have a batch in a round of an epoch: all lanes,
// except perhaps in the epoch's last round; 0 beyond the last round.
uint32_t LanesOfRound(const DataPlan& plan, uint64_t round);
// Returns how many rounds contain the first `batches` batches of a job, over all epochs; 0 without
// lanes.
uint64_t RoundsOfFirst(const DataPlan& plan, uint64_t batches);
uint64_t SplitsPerEpoch(const DataPlan& plan);
// Returns how many splits contain some of the first `batches` batches of an epoch.
uint64_t SplitsOf(const DataPlan& plan, uint64_t batches);

// Returns the number of batches in a split if the job does not say it. About 64 splits an epoch
// make the wait for the last split short; but a split has at least 4 batches, so that reading ahead
// pays, and at most 32. Only an epoch of more than 2^25 batches has larger splits, and then 2^20
// splits.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// Returns the number of batches in a split, which is numbered within its epoch; 0 if the epoch has
// no such split. BatchesOfSplit counts only batches among the first `batches` of the epoch, where a
// job may end.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);
uint32_t BatchesOfSplit(const DataPlan& plan, uint64_t split, uint64_t batches);

// Returns the number of batches in the first `splits` splits of the job, which are counted through
// all epochs; nullopt if a uint64_t cannot hold it.
std::optional<uint64_t> BatchesOfFirst(const DataPlan& plan, uint64_t splits);

// Returns the number of a batch within its epoch.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Returns the batch number `place` of an epoch. Beyond the last batch of the epoch returns a batch
// for which BatchExamples is 0.
BatchId BatchAt(const DataPlan& plan, uint64_t epoch, uint64_t place);

// Returns the number of records in a batch: plan.batch(), or fewer in the last batch of an epoch
// (which does not exist if the plan drops a short last batch); 0 beyond the last batch.
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
