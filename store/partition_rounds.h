// The rounds of one partition in synchronous training: the state of its values (the number of the
// job's rounds applied), the sum of the round under way (store/round_sum.h), and the image that
// waits for a state. The partition does the applying, keeps the values before
// (store/before_values.h) and owns ledger, values and lock.
//
// Guarded by the lock of its partition, except that any thread may call MakeBuffer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory_budget.h"
#include "config/norm_clip.h"
#include "store/ledger.h"
#include "store/partition.h"
#include "store/round_sum.h"

namespace paracord {

// Returns the rounds of the job in a ledger. DATA_LOSS: lanes have different numbers of rounds,
// which never happens in a synchronous job (the error names two states), or the rounds cannot have
// so many steps.
absl::StatusOr<uint64_t> StateOf(const PartitionLedger& ledger, const DataPlan& plan);

// How the mean of a partition's rounds is clipped by norm.
struct PartitionClip {
  NormClip clip;
  uint32_t variable = 0;
  bool exempt = false;  // a moving average is not clipped, and its squares are 0
};

struct RoundsOptions {
  DataPlan plan;              // with lanes
  uint64_t state = 0;         // the state that the partition begins with
  bool keeps_before = false;  // keep the values before the newest round
  std::optional<PartitionClip> clip = {};
  // Counts the rows of a table in the sum and before the round; null: not counted.
  std::shared_ptr<MemoryShare> rows = {};
};

class PartitionRounds {
 public:
  PartitionRounds(const RoundsOptions& options, RoundSum::Shape shape);

  uint64_t state() const { return state_; }
  const RoundSum& sum() const { return sum_; }

  // Gives back the buffers that no lane is in.
  void ReleaseSpare() { sum_.ReleaseSpare(); }
  // A buffer that a push with a gradient probably needs; null if it needs none.
  std::unique_ptr<RoundSum::Buffer> MakeBuffer() const;
  // Whether a push of this batch would complete its round.
  bool Completes(const PlanBatch& batch) const;
  // Takes a batch into the sum of its round. PUSH_APPLIED: the round is whole, and the caller
  // applies it under the same lock (Enter, Mean, Next). If the job clips rounds, a whole round
  // returns PUSH_TAKEN and waits for norms, unless all of its batches are rejected.
  PartitionLedger::Entry Take(uint64_t generation, const PlanBatch& batch, bool rejected,
                              const PartitionUpdate& update, const PartitionLedger& ledger,
                              std::unique_ptr<RoundSum::Buffer>& fresh);

  // Whether a round waits for norms.
  bool waits_for_norms() const { return clip_.has_value() && sum_.whole(); }
  // Clips the round that waits for norms. True: the caller applies the round under the same lock.
  bool Clip(uint64_t generation, const RoundNorms& norms);
  // Partition::SquaresOfMean.
  std::optional<Partition::MeanSquares> SquaresOfMean(uint64_t generation) const;

  // ---- Once the round is whole, in this order.

  // Enters the round's batches into the ledger. False: all are rejected.
  bool Enter(PartitionLedger& ledger);
  // The update of the round, perhaps none. Valid until Next.
  const PartitionUpdate& Mean() { return sum_.Mean(); }
  // False: the sum of finite gradients is not finite; an update takes such elements for 0.
  bool MeanIsFinite() { return sum_.lanes() == 1 || Mean().gradient.Finite(); }
  // Called once the values have the round: begins the next round, and hands the values to the image
  // that waits for this state.
  void Next();

  // Decides from which values a pull is answered: false for the current values, true for the values
  // kept before the newest round. A pull without a state gets the current values. `kept` says
  // whether the partition still keeps the earlier values. OUT_OF_RANGE names the partition, the
  // wanted state and the partition's state: the wanted one is gone, or not reached yet.
  absl::StatusOr<bool> IsBefore(const Partition::Facts& facts, std::optional<uint64_t> state,
                                bool kept) const;
  // Partition::LackOf for exactly this state.
  absl::StatusOr<Partition::Lack> LackOf(const Partition::Facts& facts, uint64_t state,
                                         bool kept) const;
  // Partition::ReferAt for a prepared image.
  absl::Status ReferAt(const Partition::Facts& facts, uint64_t state, PartitionImage& image,
                       std::function<void()> referred);
  void ForgetImage() { waiting_.reset(); }

 private:
  struct Waiting {
    uint64_t state = 0;
    PartitionImage* image = nullptr;
    std::function<void()> referred;
  };

  // The state that a batch's gradient is computed on: the rounds of the job before its own.
  uint64_t StateFor(const PlanBatch& batch) const;
  // The number of the split's first batches that are entered or in the sum.
  uint32_t NextOf(const PlanBatch& batch, const PartitionLedger& ledger) const;
  uint64_t round() const { return state_ % rounds_; }  // number within the epoch

  const DataPlan plan_;
  const uint64_t lanes_, rounds_;  // per epoch
  const std::optional<PartitionClip> clip_;
  uint64_t state_;
  RoundSum sum_;
  std::optional<Partition::MeanSquares> squares_;  // squares of the newest whole round
  std::optional<Waiting> waiting_;
};

}  // namespace paracord
