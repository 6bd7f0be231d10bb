// The rounds of one partition in synchronous training: the state that its values have, which is how
// many rounds of the job are applied, the sum of the round under way (store/round_sum.h), and the
// image that waits for a state. The partition applies what it is told, keeps the values before
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

// The rounds of the job that a ledger has. DATA_LOSS names two states: some lanes have more of them
// than others, which no partition of a synchronous job ever has; or there are steps that these
// rounds cannot have.
absl::StatusOr<uint64_t> StateOf(const PartitionLedger& ledger, const DataPlan& plan);

// How the mean of a partition's rounds is clipped by norm.
struct PartitionClip {
  NormClip clip;
  uint32_t variable = 0;
  bool exempt = false;  // a moving average is not clipped, and its squares are 0
};

struct RoundsOptions {
  DataPlan plan;              // with lanes
  uint64_t state = 0;         // that the partition begins with
  bool keeps_before = false;  // it keeps the values before its newest round
  std::optional<PartitionClip> clip = {};
  // Counts the rows of a table that are in the sum and before it; null: nobody does.
  std::shared_ptr<MemoryShare> rows = {};
};

class PartitionRounds {
 public:
  PartitionRounds(const RoundsOptions& options, RoundSum::Shape shape);

  uint64_t state() const { return state_; }
  const RoundSum& sum() const { return sum_; }

  // Gives back the buffers that no lane is in.
  void ReleaseSpare() { sum_.ReleaseSpare(); }
  // A buffer that a push with a gradient is likely to need: null if it needs none.
  std::unique_ptr<RoundSum::Buffer> MakeBuffer() const;
  // Whether a push of this batch would be the last one of its round.
  bool Completes(const PlanBatch& batch) const;
  // Takes a batch of the round under way into its sum. PUSH_APPLIED: the round is whole, and its
  // caller applies it under the same lock (Enter, Mean, Next). Where rounds are clipped it is
  // PUSH_TAKEN then, and the round waits for norms, unless all of its batches are rejected.
  PartitionLedger::Entry Take(uint64_t generation, const PlanBatch& batch, bool rejected,
                              const PartitionUpdate& update, const PartitionLedger& ledger,
                              std::unique_ptr<RoundSum::Buffer>& fresh);

  // Whether a round waits for norms.
  bool waits_for_norms() const { return clip_.has_value() && sum_.whole(); }
  // Clips the round that waits for these norms. True: its caller applies it under the same lock.
  bool Clip(uint64_t generation, const RoundNorms& norms);
  // Partition::SquaresOfMean.
  std::optional<Partition::MeanSquares> SquaresOfMean(uint64_t generation) const;

  // ---- Once the round is whole, in this order.

  // Enters its batches into the ledger. False: all of them are rejected.
  bool Enter(PartitionLedger& ledger);
  // The update that the round is, perhaps none. Valid until Next.
  const PartitionUpdate& Mean() { return sum_.Mean(); }
  // False: gradients that were finite have a sum that is not, which an update takes for 0.
  bool MeanIsFinite() { return sum_.lanes() == 1 || Mean().gradient.Finite(); }
  // The values have the round now: begins the next one, and hands the values to the image that
  // waits for them.
  void Next();

  // Decides from which values a pull that wants `state` is answered: false from those of now, true
  // from those that the partition kept when it applied its newest round. A pull that wants no state
  // (nullopt) gets those of now. `kept` says whether the partition still keeps the earlier values.
  // OUT_OF_RANGE names the partition, the state that is wanted and the state that the partition
  // has: it holds the wanted one no longer, or not yet.
  absl::StatusOr<bool> IsBefore(const Partition::Facts& facts, std::optional<uint64_t> state,
                                bool kept) const;
  // Partition::LackOf, where that is of exactly this state.
  absl::StatusOr<Partition::Lack> LackOf(const Partition::Facts& facts, uint64_t state,
                                         bool kept) const;
  // Partition::ReferAt, of an image that is prepared.
  absl::Status ReferAt(const Partition::Facts& facts, uint64_t state, PartitionImage& image,
                       std::function<void()> referred);
  void ForgetImage() { waiting_.reset(); }

 private:
  struct Waiting {
    uint64_t state = 0;
    PartitionImage* image = nullptr;
    std::function<void()> referred;
  };

  // The state that a batch's gradient is of: the rounds of the job before its own.
  uint64_t StateFor(const PlanBatch& batch) const;
  // The batches of the split that are entered or in the sum, which follow one another.
  uint32_t NextOf(const PlanBatch& batch, const PartitionLedger& ledger) const;
  uint64_t round() const { return state_ % rounds_; }  // of its epoch

  const DataPlan plan_;
  const uint64_t lanes_, rounds_;  // of an epoch
  const std::optional<PartitionClip> clip_;
  uint64_t state_;
  RoundSum sum_;
  std::optional<Partition::MeanSquares> squares_;  // of the newest round that was whole
  std::optional<Waiting> waiting_;
};

}  // namespace paracord
