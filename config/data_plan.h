// The arithmetic of the data plan: how many batches and splits there are, and which place of its
// epoch a batch has, which coordinator, ps and workers must agree on. Pure functions over DataPlan;
// a plan that CheckDataPlan refuses has no batches. data/batch_plan.h decides which records a batch
// holds.
//
// With lanes (DataPlan.lanes) a split is a lane, and round r of an epoch is batch r of each of its
// lanes that has one.
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
// more than the limits above, or lanes and `split_batches` that do not fit each other.
absl::Status CheckDataPlan(const DataPlan& plan);
// Returns INVALID_ARGUMENT if `epochs` epochs of a checked plan have more than kBatchesMax batches.
absl::Status CheckEpochs(const DataPlan& plan, uint64_t epochs);

uint64_t BatchesPerEpoch(const DataPlan& plan);
// Returns the records of an epoch's batches together.
uint64_t ExamplesPerEpoch(const DataPlan& plan);
// Returns the batches of all epochs, or `steps` if that is set, up to the end of their round; at
// most kBatchesMax and a round.
uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps);
// Returns the first `batches` batches of a job, and with lanes those that are left of the last
// one's round.
uint64_t UpToEndOfRound(const DataPlan& plan, uint64_t batches);
// Returns the rounds of an epoch that is cut into lanes, the batches of its longest lane; the
// greatest number if they are more, and 0 without lanes.
uint32_t RoundsPerEpoch(const DataPlan& plan);
// Returns the state that a round of an epoch of lanes begins with: how many rounds of the job come
// before it. `round` is also the number of the lanes' batches of that round.
uint64_t StateBefore(const DataPlan& plan, uint64_t epoch, uint64_t round);
// Returns how many lanes have a batch in a round of an epoch: the first ones, all of them but
// perhaps in its last round; 0 if the epoch has no such round.
uint32_t LanesOfRound(const DataPlan& plan, uint64_t round);
// Returns how many rounds have some of the first `batches` batches of a job, whose batches may be
// those of several epochs; 0 without lanes.
uint64_t RoundsOfFirst(const DataPlan& plan, uint64_t batches);
uint64_t SplitsPerEpoch(const DataPlan& plan);
// Returns how many splits have some of the first `batches` batches of an epoch.
uint64_t SplitsOf(const DataPlan& plan, uint64_t batches);

// The batches of a split in a job that does not say. An epoch gets 64 splits, so that nobody waits
// long for the last one, but a split has at least 4 batches, so that reading ahead pays, and at
// most 32. Only an epoch of very many batches has larger splits, which keep it at 2^20 of them.
uint32_t DefaultSplitBatches(uint64_t batches_per_epoch);

// Returns the batches of a split, whose number counts within its epoch; 0 if the epoch has no such
// split. With `batches` only those of the first so many batches of the epoch, where a job ends.
uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split);
uint32_t BatchesOfSplit(const DataPlan& plan, uint64_t split, uint64_t batches);

// Returns the batches of the first `splits` splits of the job, which are numbered through all
// epochs; nullopt if they are more than an uint64_t counts.
std::optional<uint64_t> BatchesOfFirst(const DataPlan& plan, uint64_t splits);

// Returns the batch's number within its epoch, its place.
uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch);

// Returns the batch at a place of an epoch. BatchExamples is 0 for a place behind the epoch's end.
BatchId BatchAt(const DataPlan& plan, uint64_t epoch, uint64_t place);

// Returns the records of a batch: plan.batch(), or fewer for the last one of an epoch unless the
// plan drops that one, or 0 if there is no such batch.
uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch);

}  // namespace paracord
