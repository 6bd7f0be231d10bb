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

// Limits of the records of a data set, and of a job's batches in all epochs: far above any job, and
// far below where their products overflow.
inline constexpr uint64_t kRecordsMax = uint64_t{1} << 56;
inline constexpr uint64_t kBatchesMax = uint64_t{1} << 56;
// A coordinator and a ledger keep a state for each split, so an epoch has at most this many.
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
// Returns the records of an epoch's batches together.
uint64_t ExamplesPerEpoch(const DataPlan& plan);
// Returns the batches of all epochs, or `steps` if that is set, up to the end of their round; at
// most kBatchesMax and a round.
uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps);
// Returns `batches`, rounded up with lanes to the end of the last batch's round.
uint64_t UpToEndOfRound(const DataPlan& plan, uint64_t batches);
// Returns the rounds of an epoch that is cut into lanes, which are the batches of its longest lane;
// at most the greatest uint32_t. 0 without lanes.
uint32_t RoundsPerEpoch(const DataPlan& plan);
// Returns the state that a round of an epoch begins with: the number of the job's rounds before it.
// `round` is also the number of each lane's batch in the round.
uint64_t StateBefore(const DataPlan& plan, uint64_t epoch, uint64_t round);
// Returns how many lanes, counted from lane 0, have a batch in a round of an epoch: all lanes,
// except perhaps in the epoch's last round; 0 beyond the last round.
uint32_t LanesOfRound(const DataPlan& plan, uint64_t round);
// Returns how many rounds hold the first `batches` batches of a job, over all epochs; 0 without
// lanes.
uint64_t RoundsOfFirst(const DataPlan& plan, uint64_t batches);
uint64_t SplitsPerEpoch(const DataPlan& plan);
// Returns how many splits have some of the first `batches` batches of an epoch.
uint64_t SplitsOf(const DataPlan& plan, uint64_t batches);

// The batches of a split where a job does not say. An epoch gets 64 splits, so that the wait for
// the last split is short; a split has 4 batches at least, so that reading ahead pays, and 32 at
// most. Only an epoch of more than 2^25 batches has larger splits, and then 2^20 splits.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// Returns the batches of a split, whose number counts within its epoch; 0 if the epoch has no split
// of this number. BatchesOfSplit counts only batches among the first `batches` of the epoch, where
// a job may end.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);
uint32_t BatchesOfSplit(const DataPlan& plan, uint64_t split, uint64_t batches);

// Returns the batches of the first `splits` splits of the job, which are numbered through all
// epochs; nullopt if they are more than an uint64_t counts.
std::optional<uint64_t> BatchesOfFirst(const DataPlan& plan, uint64_t splits);

// Returns the batch's place: its number within the epoch.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Returns the batch at a place of an epoch; BatchExamples is 0 for a place past the end.
BatchId BatchAt(const DataPlan& plan, uint64_t epoch, uint64_t place);

// Returns the records of a batch: plan.batch(), fewer in the last batch of an epoch (none if the
// plan drops a short last batch), and 0 past the end.
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
