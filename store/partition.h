// A partition of a variable, with its ledger, under one lock: a push is applied whole or not at
// all. Dense partitions move whole (store/dense_partition.h), of tables single rows do
// (store/table_partition.h); steps, snapshots and descriptions know this interface alone.
// Thread-safe. Does not check what it is given: its caller has (store/step_check.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/memory_budget.h"
#include "exchange/rows.h"
#include "exchange/step.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"
#include "store/block.h"
#include "store/gradient.h"
#include "store/learning_rate.h"
#include "store/ledger.h"
#include "store/pinned_bytes.h"

namespace paracord {

// References to a tensor's chunks, of one moment.
using ChunkRefs = std::vector<ChunkRef>;

// The generation that a push belongs to. Once it is over, a newer one may have read the ledgers and
// decided by them: what they did not show then must never be entered.
class PushFence {
 public:
  PushFence() = default;  // there is none
  // `newest` must live longer.
  PushFence(const std::atomic<uint64_t>& newest, uint64_t generation)
      : newest_(&newest), generation_(generation) {}
  bool over() const { return newest_ != nullptr && *newest_ != generation_; }
  uint64_t generation() const { return generation_; }
  // The fence of a push that was let in, and whose end a newer generation waits for.
  PushFence Entered() const {
    PushFence entered;
    entered.generation_ = generation_;
    return entered;
  }

 private:
  const std::atomic<uint64_t>* newest_ = nullptr;
  uint64_t generation_ = 0;
};

// An update is what a push brings for a partition.
struct PartitionUpdate {
  Gradient gradient;  // empty: there is none
  Rows rows;          // that the gradient has
  bool none() const { return gradient.empty() && !rows.has_value(); }
};

// An image may be of the rows alone that changed since an earlier one. The store knows that one by
// the checkpoint that has it, which is `base`; `own` is the checkpoint that the image is for, if a
// later one may continue it.
struct ImageOrder {
  std::optional<CheckpointName> base = {};
  std::optional<CheckpointName> own = {};
  // Counts what rows were before they changed; null: nobody counts. Where it is full, pushes wait
  // so long for the image, and then the image ends.
  MemoryShare* snapshots = nullptr;
  int64_t push_wait_ms = 0;
};

class PartitionImage;

class Partition {
 public:
  // The rounds of the job that values which are read are to have; nullopt: those of now.
  using AtState = std::optional<uint64_t>;
  struct Facts {
    uint32_t id = 0;
    std::string name;
    std::vector<uint64_t> shape;
    bool trained = false;
    uint64_t bytes = 0;      // of all values, where they can travel as a whole
    uint64_t row_begin = 0;  // the variable's row that is the first here
    uint32_t variable = 0;   // of the job's variables
  };
  struct Counts {
    PartitionLedger ledger;
    uint64_t updates = 0;
    bool healthy = true;
    std::optional<TableCounts> table = {};  // of a growing table
    // In synchronous training: the rounds of the job that the values have, and whether the values
    // of one round less are served, too.
    uint64_t state = 0;
    bool serves_before = false;
    double learning_rate = 0;  // of the newest step, or of the first one
  };

  // What keeps the values of a state from being read.
  struct Lack {
    std::vector<uint32_t> lanes = {};  // ascending, kMissingLanesMax at most
    bool norms = false;                // all lanes are here, and the round waits for its norms
    bool any() const { return norms || !lanes.empty(); }
  };
  // In a synchronous job that clips by norm: the sum of squares of the mean of a round.
  struct MeanSquares {
    uint64_t round = 0;  // the state that it begins with
    double squares = 0;  // kSquaresMax if the mean is not finite
  };

  // `pinned` counts for all partitions of a ps; null: nobody asks.
  Partition(Facts facts, std::shared_ptr<PinnedBytes> pinned)
      : facts_(std::move(facts)),
        pinned_(pinned != nullptr ? std::move(pinned) : std::make_shared<PinnedBytes>()) {}
  virtual ~Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  const Facts& facts() const { return facts_; }
  const std::shared_ptr<PinnedBytes>& pinned() const { return pinned_; }

  // Whether pushes and pulls may name rows of it.
  virtual bool is_table() const { return false; }
  // Says why it has not all of these rows; "" if it has. Ids are ascending and distinct.
  virtual std::string WhyNotItsRows(const RowIds& /*ids*/) const {
    return "rows alone of a variable that is no table, because the job has none of it, or because "
           "its optimizer or a constraint also changes the others; \"update\": \"lazy\" of the "
           "table "
           "has the others left alone";
  }
  // The elements of one row of a table.
  virtual uint64_t row_elements() const { return 0; }
  // Whether every push with a gradient has to name its rows.
  virtual bool lazy() const { return false; }
  // Whether rows come and go; then every pull has to name its rows, too.
  virtual bool growing() const { return false; }
  virtual uint64_t resident_bytes() const = 0;
  // The bytes that a push takes beside these until its round is over: of a table in a synchronous
  // job the rows in sums and before them, at most. 0 where they are held from the start.
  virtual uint64_t RoundBytesOf(const PartitionUpdate& /*update*/) const { return 0; }
  // Gives back what is kept for the rows of later rounds.
  virtual void ReleaseRoundBytes() {}

  // Enters the batch if it is next, and then applies the update unless there is none or the batch
  // is rejected; in synchronous training takes both into the sum of their round, and enters and
  // applies that when it is whole. Its gradient is finite and has as many elements as the partition
  // or its rows; only a table is given rows. PUSH_NONE: its generation is over. In a job that clips
  // rounds by norm a whole round waits for TakeNorms, unless all of its lanes are rejected.
  virtual Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                       const PushFence& fence) = 0;
  // Enters, clips and applies the round that waits for these norms, which are of all variables and
  // no NaN. Norms of another round, of another generation, or less than the partition's own change
  // nothing. Returns whether the round has been applied.
  virtual bool TakeNorms(const RoundNorms& /*norms*/, const PushFence& /*fence*/) { return false; }
  // Of the round that waits for norms in this generation, or of the one that was applied last;
  // nullopt: there is none.
  virtual std::optional<MeanSquares> SquaresOfMean(uint64_t /*generation*/) const { return {}; }
  // Sets the rate of the updates to come. Returns false if the generation that wants it is over.
  virtual bool SetLearningRate(const LearningRate& rate, const PushFence& fence) = 0;

  // The count of updates, and into `values` the values it belongs to; not of tables. With a state,
  // in synchronous training: the values after so many rounds, and their count. OUT_OF_RANGE names
  // the partition: it does not have those.
  virtual absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const = 0;
  uint64_t Pull(ChunkRefs& values) const { return PullAt({}, values).value(); }
  // Copies some rows of a table, ascending and distinct, to `values`, and returns the count of
  // updates, as PullAt.
  virtual absl::StatusOr<uint64_t> PullRowsAt(AtState /*state*/, std::span<const uint64_t> /*ids*/,
                                              std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
    return PullRowsAt({}, ids, values).value();
  }
  // Copies rows of a fixed table that follow one another, from its first-th row on, as PullAt.
  virtual absl::StatusOr<uint64_t> PullRangeAt(AtState /*state*/, uint64_t /*first*/,
                                               std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRange(uint64_t first, std::span<float> values) const {
    return PullRangeAt({}, first, values).value();
  }
  virtual Counts GetCounts() const = 0;
  // What it lacks of a state: the lanes that its ledger lacks (store/round_gate.h), in synchronous
  // training those that the sum of its round lacks, or norms. OUT_OF_RANGE names the partition: it
  // is past the state, and does not serve it any more.
  virtual absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const = 0;

  // An image that refers to nothing yet; `copied`: with memory of its own, so that pushes need not
  // preserve what it has not written yet; a table preserves single rows, and is never copied. It
  // must not outlive the partition. It is whole unless the partition is a table that knows what
  // changed since `order.base`.
  virtual std::unique_ptr<PartitionImage> NewImage(bool copied,
                                                   const ImageOrder& order = {}) const = 0;
  // In synchronous training: makes `image`, of NewImage, the image of the values after `state`
  // rounds: at once, or when they have been applied, by the thread that applies the last batch of
  // them. `referred` is called once then, perhaps under the partition's lock: it must not block nor
  // call the partition. One image can wait; a later one takes its place. OUT_OF_RANGE: more rounds
  // are applied, and nothing is called.
  virtual absl::Status ReferAt(uint64_t state, PartitionImage& image,
                               std::function<void()> referred);
  // No image waits any more: `referred` is not called after this.
  virtual void ForgetImage() {}

 private:
  const Facts facts_;
  const std::shared_ptr<PinnedBytes> pinned_;  // shared with replies, which may outlive us
};

// Everything that a partition has, of one moment, on its way into a file. Used by one thread.
class PartitionImage {
 public:
  using AppendFn = std::function<absl::Status(std::string_view bytes)>;

  virtual ~PartitionImage() = default;
  // Makes it the image of now, by references, under the partition's lock for a moment.
  virtual void Refer() = 0;
  // Refer in two parts: makes the memory that the second one needs, without the lock, and refers,
  // for a thread that has the lock.
  virtual void Prepare() {}
  virtual void ReferHeld() = 0;
  // Moves what it refers to into memory of its own, if it has any. Called without the lock.
  virtual void Copy() {}

  // Once it refers:
  virtual const Partition::Counts& counts() const = 0;
  virtual std::vector<TensorInfo> tensors() const = 0;
  virtual PartitionMetadata metadata() const = 0;
  // Hands out the bytes of its tensors in their order, once, and then nothing keeps them. ABORTED:
  // a newer image has taken its place.
  virtual absl::Status Write(const AppendFn& append) = 0;
};

// A partition that forms no rounds has the same values after each.
inline absl::Status Partition::ReferAt(uint64_t /*state*/, PartitionImage& image,
                                       std::function<void()> referred) {
  image.Refer();
  referred();
  return absl::OkStatus();
}

}  // namespace paracord
