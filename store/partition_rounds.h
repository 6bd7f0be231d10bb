// The rounds of one partition in synchronous training: the state of its values (how many of the
// job's rounds they have), the sum of the round under way (store/round_sum.h), and the image that
// waits for a state. The partition has the ledger, the values and the lock; it applies rounds, and
// keeps the values before the newest round (store/before_values.h).
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

// Returns how many rounds of the job are entered in a ledger. DATA_LOSS: lanes have different
// numbers of rounds (the error names two), or the ledger's counts of steps and applied batches do
// not fit so many rounds; neither happens in a synchronous job.
absl::StatusOr<uint64_t> StateOf(const PartitionLedger& ledger, const DataPlan& plan);

// How the mean gradient of each round of a partition is clipped by norm.
struct PartitionClip {
  NormClip clip;
  uint32_t variable = 0;
  bool exempt = false;  // a moving average: not clipped, and its squares are 0
};

struct RoundsOptions {
  DataPlan plan;              // a plan with lanes
  uint64_t state = 0;         // the state with which the partition begins
  bool keeps_before = false;  // whether to keep the values before the newest round
  std::optional<PartitionClip> clip = {};
  // Counts a table's rows in the sum of the round and in the values before it; null: not counted.
  std::shared_ptr<MemoryShare> rows = {};
};

class PartitionRounds {
 public:
  PartitionRounds(const RoundsOptions& options, RoundSum::Shape shape);

  uint64_t state() const { return state_; }
  const RoundSum& sum() const { return sum_; }

  // Frees the buffers of the sum that have no gradient now.
  void ReleaseSpare() { sum_.ReleaseSpare(); }
  // Makes a buffer for a push with a gradient; returns null if the push probably needs none.
  std::unique_ptr<RoundSum::Buffer> MakeBuffer() const;
  // Whether a push of this batch would have its round applied at once; false if rounds are clipped.
  bool Completes(const PlanBatch& batch) const;
  // Takes a batch into the sum of its round. PUSH_APPLIED: the round is whole, and the caller
  // applies it under the same lock (Enter, Mean, Next). If the job clips rounds, Take returns
  // PUSH_TAKEN for a whole round, which then waits for norms, unless all of its batches are
  // rejected. `fresh` comes from MakeBuffer.
  PartitionLedger::Entry Take(uint64_t generation, const PlanBatch& batch, bool rejected,
                              const PartitionUpdate& update, const PartitionLedger& ledger,
                              std::unique_ptr<RoundSum::Buffer>& fresh);

  // Whether a whole round waits for norms.
  bool waits_for_norms() const { return clip_.has_value() && sum_.whole(); }
  // Clips the round that waits for norms. True: the caller applies the round under the same lock.
  // False: no round waits, or the norms are of another round or less than the partition's squares.
  bool Clip(uint64_t generation, const RoundNorms& norms);
  // See Partition::SquaresOfMean.
  std::optional<Partition::MeanSquares> SquaresOfMean(uint64_t generation) const;

  // ---- Called once the round is whole, in this order.

  // Enters the batches of the round into the ledger. Returns false if all are rejected.
  bool Enter(PartitionLedger& ledger);
  // The mean gradient of the round, which may be none. Valid until Next.
  const PartitionUpdate& Mean() { return sum_.Mean(); }
  // Whether the mean is finite: a sum of finite gradients may overflow. An update takes each
  // element of the gradient that is not finite for 0.
  bool MeanIsFinite() { return sum_.lanes() == 1 || Mean().gradient.Finite(); }
  // Called when the values have the round: begins the next round, and has the image that waits for
  // the state after this one refer to the values.
  void Next();

  // Decides which values answer a pull: false for the current ones, true for those kept before the
  // newest round. A pull without a state gets the current ones. `kept`: the partition still keeps
  // the values before the newest round. OUT_OF_RANGE names the partition, its state and the wanted
  // one, which is gone or not reached yet.
  absl::StatusOr<bool> IsBefore(const Partition::Facts& facts, std::optional<uint64_t> state,
                                bool kept) const;
  // Partition::LackOf of a partition that forms rounds.
  absl::StatusOr<Partition::Lack> LackOf(const Partition::Facts& facts, uint64_t state,
                                         bool kept) const;
  // Partition::ReferAt of a partition that forms rounds, after PartitionImage::Prepare.
  absl::Status ReferAt(const Partition::Facts& facts, uint64_t state, PartitionImage& image,
                       std::function<void()> referred);
  void ForgetImage() { waiting_.reset(); }

 private:
  struct Waiting {
    uint64_t state = 0;
    PartitionImage* image = nullptr;
    std::function<void()> referred;
  };

  // Returns how many rounds the values have from which the gradient of `batch` is computed.
  uint64_t StateFor(const PlanBatch& batch) const;
  // The first batch of the split that is neither in the ledger nor in the sum.
  uint32_t NextOf(const PlanBatch& batch, const PartitionLedger& ledger) const;
  uint64_t round() const { return state_ % rounds_; }  // the round under way, counted in its epoch

  const DataPlan plan_;
  const uint64_t lanes_, rounds_;  // how many an epoch has
  const std::optional<PartitionClip> clip_;
  uint64_t state_;
  RoundSum sum_;
  // The squares of the newest round that has waited for norms.
  std::optional<Partition::MeanSquares> squares_;
  std::optional<Waiting> waiting_;
};

}  // namespace paracord
