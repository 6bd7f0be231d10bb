#include "config/data_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {

namespace {

absl::Status CheckLanes(const DataPlan& plan) {
  if (plan.lanes() > kLanesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("data plan: lanes is ", plan.lanes(), ", more than ", kLanesMax));
  }
  const uint64_t rounds = DivideUp(BatchesPerEpoch(plan), plan.lanes());
  if (rounds > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data plan: ", BatchesPerEpoch(plan), " batches an epoch in ", plan.lanes(), " lanes are ",
        rounds, " rounds, more than ", std::numeric_limits<uint32_t>::max(),
        ": a larger batch or round_batches makes fewer"));
  }
  if (plan.split_batches() == rounds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data plan: split_batches is ",
                                                 plan.split_batches(), ", but with ", plan.lanes(),
                                                 " lanes it is the rounds of an epoch, ", rounds));
}

}  // namespace

uint64_t DivideUp(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b + (a % b != 0 ? 1 : 0); }

absl::Status CheckDataPlan(const DataPlan& plan) {
  if (plan.records() == 0) return absl::InvalidArgumentError("data plan: records is 0");
  if (plan.batch() == 0) return absl::InvalidArgumentError("data plan: batch is 0");
  if (plan.split_batches() == 0) return absl::InvalidArgumentError("data plan: split_batches is 0");
  if (BatchesPerEpoch(plan) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data plan: drop_last leaves no batch: ", plan.records(),
                     " records make no whole batch of ", plan.batch()));
  }
  if (plan.lanes() > 0) RETURN_IF_ERROR(CheckLanes(plan));
  const uint64_t records = std::max(plan.records(), plan.test_records());
  if (records > kRecordsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("data plan: ", records == plan.records() ? "records is " : "test_records is ",
                     records, ", more than ", kRecordsMax));
  }
  if (SplitsPerEpoch(plan) > kSplitsPerEpochMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data plan: ", BatchesPerEpoch(plan), " batches an epoch, ", plan.split_batches(),
        " a split, are ", SplitsPerEpoch(plan), " splits, more than ", kSplitsPerEpochMax,
        ": a larger batch or split_batches makes fewer"));
  }
  return absl::OkStatus();
}

absl::Status CheckEpochs(const DataPlan& plan, uint64_t epochs) {
  const uint64_t each = BatchesPerEpoch(plan);
  if (each == 0 || epochs <= kBatchesMax / each) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "epochs: ", epochs, " epochs of ", each, " batches are more than ", kBatchesMax, " batches"));
}

uint64_t BatchesPerEpoch(const DataPlan& plan) {
  const uint64_t batches = DivideUp(plan.records(), plan.batch());
  const bool whole = batches == 0 || plan.records() % plan.batch() == 0;
  return plan.drop_last() && !whole ? batches - 1 : batches;
}

uint64_t ExamplesPerEpoch(const DataPlan& plan) {
  return plan.drop_last() ? BatchesPerEpoch(plan) * plan.batch() : plan.records();
}

uint64_t BatchesOfJob(const DataPlan& plan, uint64_t epochs, std::optional<uint64_t> steps) {
  const uint64_t per_epoch = BatchesPerEpoch(plan);
  if (steps.has_value()) return UpToEndOfRound(plan, std::min(*steps, kBatchesMax));
  return per_epoch == 0 || epochs <= kBatchesMax / per_epoch ? epochs * per_epoch : kBatchesMax;
}

uint64_t UpToEndOfRound(const DataPlan& plan, uint64_t batches) {
  const uint64_t per_epoch = BatchesPerEpoch(plan);
  if (plan.lanes() == 0 || per_epoch == 0) return batches;
  const uint64_t in_epoch = batches % per_epoch;
  const uint64_t whole_rounds = DivideUp(in_epoch, plan.lanes()) * plan.lanes();
  return batches - in_epoch + std::min(whole_rounds, per_epoch);
}

uint32_t RoundsPerEpoch(const DataPlan& plan) {
  const uint64_t rounds = DivideUp(BatchesPerEpoch(plan), plan.lanes());
  return static_cast<uint32_t>(std::min<uint64_t>(rounds, std::numeric_limits<uint32_t>::max()));
}

uint64_t StateBefore(const DataPlan& plan, uint64_t epoch, uint64_t round) {
  return epoch * RoundsPerEpoch(plan) + round;
}

uint32_t LanesOfRound(const DataPlan& plan, uint64_t round) {
  if (plan.lanes() == 0 || round >= RoundsPerEpoch(plan)) return 0;
  const uint64_t left = BatchesPerEpoch(plan) - round * plan.lanes();
  return static_cast<uint32_t>(std::min<uint64_t>(left, plan.lanes()));
}

uint64_t RoundsOfFirst(const DataPlan& plan, uint64_t batches) {
  const uint64_t per_epoch = BatchesPerEpoch(plan);
  if (plan.lanes() == 0 || per_epoch == 0) return 0;
  return StateBefore(plan, batches / per_epoch, DivideUp(batches % per_epoch, plan.lanes()));
}

uint64_t SplitsOf(const DataPlan& plan, uint64_t batches) {
  if (plan.lanes() > 0) return std::min<uint64_t>(plan.lanes(), batches);
  return DivideUp(batches, plan.split_batches());
}

uint64_t SplitsPerEpoch(const DataPlan& plan) { return SplitsOf(plan, BatchesPerEpoch(plan)); }

uint32_t DefaultSplitBatches(uint64_t batches_per_epoch) {
  constexpr uint64_t kMany = uint64_t{1} << 20;  // splits; and what a job may say of split_batches
  const uint64_t few = std::clamp<uint64_t>(DivideUp(batches_per_epoch, 64), 4, 32);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(DivideUp(batches_per_epoch, kMany), few, kMany));
}

uint32_t BatchesOfSplit(const DataPlan& plan, uint64_t split, uint64_t batches) {
  if (split >= SplitsOf(plan, batches)) return 0;
  if (plan.lanes() > 0) return static_cast<uint32_t>(DivideUp(batches - split, plan.lanes()));
  const uint64_t left = batches - split * plan.split_batches();
  return static_cast<uint32_t>(std::min<uint64_t>(left, plan.split_batches()));
}

uint32_t BatchesInSplit(const DataPlan& plan, uint64_t split) {
  return BatchesOfSplit(plan, split, BatchesPerEpoch(plan));
}

std::optional<uint64_t> BatchesOfFirst(const DataPlan& plan, uint64_t splits) {
  const uint64_t each = SplitsPerEpoch(plan);
  if (each == 0) return 0;
  const uint64_t per_epoch = BatchesPerEpoch(plan);
  const uint64_t left = splits % each;  // splits in the last epoch
  uint64_t in_epoch = left * plan.split_batches();
  if (plan.lanes() > 0) {
    in_epoch = left * (per_epoch / plan.lanes()) + std::min(left, per_epoch % plan.lanes());
  }
  uint64_t batches = 0;
  if (__builtin_mul_overflow(splits / each, per_epoch, &batches) ||
      __builtin_add_overflow(batches, in_epoch, &batches)) {
    return std::nullopt;
  }
  return batches;
}

uint64_t BatchInEpoch(const DataPlan& plan, uint64_t split, uint32_t batch) {
  if (plan.lanes() > 0) return uint64_t{batch} * plan.lanes() + split;
  return split * plan.split_batches() + batch;
}

BatchId BatchAt(const DataPlan& plan, uint64_t epoch, uint64_t place) {
  BatchId id;
  id.set_epoch(epoch);
  if (plan.lanes() > 0) {
    id.set_split(place % plan.lanes());
    id.set_batch(static_cast<uint32_t>(place / plan.lanes()));
    return id;
  }
  if (plan.split_batches() == 0) return id;
  id.set_split(place / plan.split_batches());
  id.set_batch(static_cast<uint32_t>(place % plan.split_batches()));
  return id;
}

uint32_t BatchExamples(const DataPlan& plan, uint64_t split, uint32_t batch) {
  if (batch >= BatchesInSplit(plan, split)) return 0;
  const uint64_t left = plan.records() - BatchInEpoch(plan, split, batch) * plan.batch();
  return static_cast<uint32_t>(std::min<uint64_t>(left, plan.batch()));
}

}  // namespace paracord
