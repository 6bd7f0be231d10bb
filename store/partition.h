// A partition of a variable, with its ledger, under one lock: a push is applied whole or not at
// all. Dense partitions are pushed and pulled as a whole (store/dense_partition.h), tables by row
// (store/table_partition.h). Steps, snapshots and descriptions use only this interface.
// Thread-safe. Arguments are not checked here: the caller has checked them (store/step_check.h).
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

// The chunks of a tensor (store/block.h), as references, with the tensor's values of one moment.
using ChunkRefs = std::vector<ChunkRef>;

// The generation of a push. Once a newer generation begins, its coordinator may read the ledgers
// and decide by them, so a push of an older generation must enter nothing any more.
class PushFence {
 public:
  PushFence() = default;  // a fence that is never over
  // `newest` has the newest generation that has begun, and must outlive the fence.
  PushFence(const std::atomic<uint64_t>& newest, uint64_t generation)
      : newest_(&newest), generation_(generation) {}
  bool over() const { return newest_ != nullptr && *newest_ != generation_; }
  uint64_t generation() const { return generation_; }
  // Returns a fence that is never over, for a push that has begun: a newer generation waits for the
  // end of such pushes (PartitionSet::pushes).
  PushFence Entered() const {
    PushFence entered;
    entered.generation_ = generation_;
    return entered;
  }

 private:
  const std::atomic<uint64_t>* newest_ = nullptr;
  uint64_t generation_ = 0;
};

// What a push brings for one partition.
struct PartitionUpdate {
  Gradient gradient;  // empty: no gradient, or one of no rows
  Rows rows;          // ids of the rows in the gradient; nullopt: all elements
  bool none() const { return gradient.empty() && !rows.has_value(); }
};

// What an image (a partition's contents at one moment, for a checkpoint) is to have.
struct ImageOrder {
  // If set, the image of a table may have only rows changed since the image of this checkpoint.
  std::optional<CheckpointName> base = {};
  // The checkpoint to be made from the image; nullopt if no later checkpoint may continue it.
  std::optional<CheckpointName> own = {};
  // Counts the old values of rows that change before the image has read them; null: not counted. If
  // the share is full, a push waits up to `push_wait_ms` for the image, and then ends the image.
  MemoryShare* snapshots = nullptr;
  int64_t push_wait_ms = 0;
};

class PartitionImage;

class Partition {
 public:
  // Says which values: those after so many of the job's rounds; nullopt: the current ones.
  using AtState = std::optional<uint64_t>;
  struct Facts {
    uint32_t id = 0;
    std::string name;
    std::vector<uint64_t> shape;
    bool trained = false;
    uint64_t bytes = 0;      // size of all values as float32; 0 for a growing table
    uint64_t row_begin = 0;  // the partition's first row; in a growing table, its shard
    uint32_t variable = 0;   // index in the job's variables
  };
  struct Counts {
    PartitionLedger ledger;
    uint64_t updates = 0;                   // how often the values were changed
    bool healthy = true;                    // false: some update gave a value that is not finite
    std::optional<TableCounts> table = {};  // only for a growing table
    // In synchronous training: how many rounds of the job the values have, and whether the values
    // one round earlier are served, too.
    uint64_t state = 0;
    bool serves_before = false;
    double learning_rate = 0;  // the rate of the newest step, or of the first if there is none yet
  };

  // What a partition still lacks before it has the values of a state.
  struct Lack {
    std::vector<uint32_t> lanes = {};  // lanes missing; ascending, kMissingLanesMax at most
    bool norms = false;                // all lanes are here, and the round waits for its norms
    bool any() const { return norms || !lanes.empty(); }
  };
  // In a synchronous job that clips by norm: the sum of squares of a round's mean gradient.
  struct MeanSquares {
    uint64_t round = 0;  // how many rounds of the job come before this one
    double squares = 0;  // kSquaresMax if the sum is not finite
  };

  // `pinned` counts values on their way to readers, for all partitions of a ps; null: of this.
  Partition(Facts facts, std::shared_ptr<PinnedBytes> pinned)
      : facts_(std::move(facts)),
        pinned_(pinned != nullptr ? std::move(pinned) : std::make_shared<PinnedBytes>()) {}
  virtual ~Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  const Facts& facts() const { return facts_; }
  const std::shared_ptr<PinnedBytes>& pinned() const { return pinned_; }

  // Whether pushes and pulls may name rows of the partition.
  virtual bool is_table() const { return false; }
  // Returns why not all of these rows, which ascend, are the partition's; "" if they are.
  virtual std::string WhyNotItsRows(const RowIds& /*ids*/) const {
    return "rows alone of a variable that is no table, because the job has none of it, or because "
           "its optimizer or a constraint also changes the others; \"update\": \"lazy\" of the "
           "table "
           "has the others left alone";
  }
  virtual uint64_t row_elements() const { return 0; }  // of one row; 0: no table
  // Whether every push with a gradient has to name its rows.
  virtual bool lazy() const { return false; }
  // Whether the partition is of a growing table. Then every pull has to name its rows, too.
  virtual bool growing() const { return false; }
  virtual uint64_t resident_bytes() const = 0;  // memory, without that of rounds
  // In a synchronous job: the most bytes that the rows of `update` take beside resident_bytes()
  // until their round is over: in sums, and as values before the round. 0 for a partition whose
  // memory for rounds is reserved from the start.
  virtual uint64_t RoundBytesOf(const PartitionUpdate& /*update*/) const { return 0; }
  // Frees the memory that no rows use now and that is kept for the rows of later rounds.
  virtual void ReleaseRoundBytes() {}

  // Enters the batch if it is the next of its split, and applies `update` unless that is none or
  // the batch is rejected. In synchronous training, takes the batch into the sum of its round; with
  // the last batch of a round, enters and applies the whole round. But if the job clips by norm, a
  // round waits for TakeNorms, unless all of its lanes are rejected. The gradient is finite and has
  // the elements of the partition or of `update.rows`; only tables get rows. PUSH_NONE: the fence
  // is over.
  virtual Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                       const PushFence& fence) = 0;
  // Enters, clips and applies the round that waits for norms. `norms` has all variables and no NaN.
  // With norms of another round or generation, or smaller than this partition's own squares, no
  // round is applied. Returns whether the round has been applied.
  virtual bool TakeNorms(const RoundNorms& /*norms*/, const PushFence& /*fence*/) { return false; }
  // The squares of the round that waits for norms in this generation, or of the last applied round
  // if no later one has waited for norms; nullopt: neither is known.
  virtual std::optional<MeanSquares> SquaresOfMean(uint64_t /*generation*/) const { return {}; }
  // Sets the learning rate of future updates. Returns false if the fence is over.
  virtual bool SetLearningRate(const LearningRate& rate, const PushFence& fence) = 0;

  // Returns the count of updates, and in `values` the values after that many updates (of a table,
  // none). A partition that forms rounds gives the values of `state`; others give the current ones.
  // OUT_OF_RANGE names the partition, if it does not have the state yet, or no longer.
  virtual absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const = 0;
  uint64_t Pull(ChunkRefs& values) const { return PullAt({}, values).value(); }
  // Copies the rows `ids` of a table, ascending and distinct, to `values`. Otherwise as PullAt.
  virtual absl::StatusOr<uint64_t> PullRowsAt(AtState /*state*/, std::span<const uint64_t> /*ids*/,
                                              std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
    return PullRowsAt({}, ids, values).value();
  }
  // Like PullRowsAt, for consecutive rows of a fixed table, from row `first` of the partition on.
  virtual absl::StatusOr<uint64_t> PullRangeAt(AtState /*state*/, uint64_t /*first*/,
                                               std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRange(uint64_t first, std::span<float> values) const {
    return PullRangeAt({}, first, values).value();
  }
  virtual Counts GetCounts() const = 0;
  // Returns what keeps the values of `state` from being read: lanes that are missing in the ledger
  // (with rounds, in the sum of the round), or norms. OUT_OF_RANGE names the partition, if it is
  // past the state and no longer serves it.
  virtual absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const = 0;

  // Returns an image that refers to nothing yet. With `copied`, PartitionImage::Copy copies the
  // values of a dense partition, so that pushes need not preserve them. The partition must outlive
  // the image. The image has all rows, unless a table knows what changed since `order.base` and
  // that is little.
  virtual std::unique_ptr<PartitionImage> NewImage(bool copied,
                                                   const ImageOrder& order = {}) const = 0;
  // Makes `image` (from NewImage) refer to the values after `state` rounds, now or on the thread
  // that applies the last of these rounds. Then calls `referred` once, perhaps under the
  // partition's lock: it must neither block nor call the partition. Only one image can wait; a
  // later one replaces it. OUT_OF_RANGE: more rounds are applied, and `referred` is not called. In
  // a partition that forms no rounds, the image refers to the present values.
  virtual absl::Status ReferAt(uint64_t state, PartitionImage& image,
                               std::function<void()> referred);
  // Drops the image that waits, if any, and does not call its `referred` any more.
  virtual void ForgetImage() {}

 private:
  const Facts facts_;
  const std::shared_ptr<PinnedBytes> pinned_;  // shared with replies, which may live longer
};

// The contents of a partition at one moment, on their way into a file. Used by one thread at a
// time, except that a pushing thread may call ReferHeld meanwhile (Partition::ReferAt).
class PartitionImage {
 public:
  using AppendFn = std::function<absl::Status(std::string_view bytes)>;

  virtual ~PartitionImage() = default;
  // Refers to the present contents. Takes the partition's lock for a moment.
  virtual void Refer() = 0;
  // Refer in two parts: Prepare allocates, without the lock; ReferHeld refers, and its caller has
  // the lock.
  virtual void Prepare() {}
  virtual void ReferHeld() = 0;
  // Copies the values, if the image was made with `copied` and is of a dense partition. Called
  // without the lock.
  virtual void Copy() {}

  // Called after Refer:
  virtual const Partition::Counts& counts() const = 0;
  virtual std::vector<TensorInfo> tensors() const = 0;
  virtual PartitionMetadata metadata() const = 0;
  // Hands the bytes of the tensors, in the order of tensors(), to `append`. Called once: the bytes
  // are not kept. ABORTED: a newer image has replaced this one, or changed rows were miscounted.
  // RESOURCE_EXHAUSTED: ImageOrder::snapshots had no room.
  virtual absl::Status Write(const AppendFn& append) = 0;
};

// For a partition that forms no rounds: the image refers to the present values.
inline absl::Status Partition::ReferAt(uint64_t /*state*/, PartitionImage& image,
                                       std::function<void()> referred) {
  image.Refer();
  referred();
  return absl::OkStatus();
}

}  // namespace paracord
