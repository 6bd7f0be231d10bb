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

// References to the chunks of a tensor (store/block.h), with its values of one moment.
using ChunkRefs = std::vector<ChunkRef>;

// The generation of a push. Once a newer generation begins, its coordinator may read the ledgers
// and decide by them. So a push of an older generation must then enter nothing any more.
class PushFence {
 public:
  PushFence() = default;  // never over
  // `newest` must outlive the fence.
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

// An update is what a push brings for a partition.
struct PartitionUpdate {
  Gradient gradient;  // empty: none, or a gradient of no rows
  Rows rows;          // ids of the rows in the gradient; nullopt: all elements
  bool none() const { return gradient.empty() && !rows.has_value(); }
};

// What an image (a partition's contents at one moment, for a checkpoint) is to have.
struct ImageOrder {
  // If set, the image of a table may have only the rows changed since the image of this checkpoint.
  std::optional<CheckpointName> base = {};
  // The checkpoint to be made from the image; nullopt if no later one may continue it.
  std::optional<CheckpointName> own = {};
  // Counts the old values of rows that change before they are read; null: not counted. If the share
  // is full, a push waits up to `push_wait_ms` for the reader, and then ends the image.
  MemoryShare* snapshots = nullptr;
  int64_t push_wait_ms = 0;
};

class PartitionImage;

class Partition {
 public:
  // The state of values: how many of the job's rounds they have. nullopt: the current values.
  using AtState = std::optional<uint64_t>;
  struct Facts {
    uint32_t id = 0;
    std::string name;
    std::vector<uint64_t> shape;
    bool trained = false;
    uint64_t bytes = 0;      // size of all values as float32; 0 for a growing table
    uint64_t row_begin = 0;  // the variable's first row in this partition, or the shard
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
    double learning_rate = 0;  // in the newest or first step
  };

  // What a partition waits for before it has the values of a state.
  struct Lack {
    std::vector<uint32_t> lanes = {};  // missing; ascending, kMissingLanesMax at most
    bool norms = false;                // all lanes are here, and the round waits for its norms
    bool any() const { return norms || !lanes.empty(); }
  };
  // In a synchronous job that clips by norm: the sum of squares of a round's mean gradient.
  struct MeanSquares {
    uint64_t round = 0;  // rounds of the job before the round
    double squares = 0;  // kSquaresMax if the sum is not finite
  };

  // `pinned` counts values on their way to readers, for all partitions of a ps; null: uncounted.
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
  // Says why the partition cannot have all of these rows, which ascend; "" if it can.
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
  virtual uint64_t resident_bytes() const = 0;  // memory of values and slots
  // In a synchronous job: the most bytes that the update's rows take beside resident_bytes() until
  // its round is over, in sums and before the round. 0 where memory is reserved from the start.
  virtual uint64_t RoundBytesOf(const PartitionUpdate& /*update*/) const { return 0; }
  // Frees the memory that is kept to be used again for the rows of later rounds.
  virtual void ReleaseRoundBytes() {}

  // Enters the batch if it is the next of its split, and applies the update unless it is empty or
  // the batch is rejected. In synchronous training, takes the batch into the sum of its round, and
  // with the last batch enters and applies the whole round; if the job clips by norm, the whole
  // round waits for TakeNorms instead, unless all of its lanes are rejected. The gradient is finite
  // and has the elements of the partition or of `update.rows`; only tables get rows. PUSH_NONE: the
  // fence is over.
  virtual Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                       const PushFence& fence) = 0;
  // Enters, clips and applies the round that waits for norms. `norms` has all variables and no NaN.
  // Norms of another round or generation, or smaller than this partition's own squares, change
  // nothing. Returns whether the round has been applied.
  virtual bool TakeNorms(const RoundNorms& /*norms*/, const PushFence& /*fence*/) { return false; }
  // The squares of the round that waits for norms in this generation, or else of the last applied
  // round; nullopt: neither exists.
  virtual std::optional<MeanSquares> SquaresOfMean(uint64_t /*generation*/) const { return {}; }
  // Sets the learning rate of future updates. Returns false if the fence is over.
  virtual bool SetLearningRate(const LearningRate& rate, const PushFence& fence) = 0;

  // Returns the count of updates, and in `values` the values with this count (of a table, none).
  // Only partitions that form rounds know states; others give the current values. OUT_OF_RANGE
  // names the partition, which does not have the state yet, or no longer.
  virtual absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const = 0;
  uint64_t Pull(ChunkRefs& values) const { return PullAt({}, values).value(); }
  // Copies rows of a table, whose ids ascend and are distinct, to `values`; see PullAt.
  virtual absl::StatusOr<uint64_t> PullRowsAt(AtState /*state*/, std::span<const uint64_t> /*ids*/,
                                              std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
    return PullRowsAt({}, ids, values).value();
  }
  // Copies consecutive rows of a fixed table, from row `first` of the partition on; see PullAt.
  virtual absl::StatusOr<uint64_t> PullRangeAt(AtState /*state*/, uint64_t /*first*/,
                                               std::span<float> /*values*/) const {
    return 0;
  }
  uint64_t PullRange(uint64_t first, std::span<float> values) const {
    return PullRangeAt({}, first, values).value();
  }
  virtual Counts GetCounts() const = 0;
  // What keeps the values of `state` from being read: lanes missing from the ledger, or with rounds
  // from the sum of the round, or norms. OUT_OF_RANGE names the partition, which is past the state
  // and no longer serves it.
  virtual absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const = 0;

  // Returns an image that refers to nothing yet. `copied`: PartitionImage::Copy copies the values
  // of a dense partition, so that pushes need not preserve them. The partition must outlive the
  // image. The image is whole, unless a table knows its changes since `order.base`, and they are
  // few.
  virtual std::unique_ptr<PartitionImage> NewImage(bool copied,
                                                   const ImageOrder& order = {}) const = 0;
  // Makes `image` (from NewImage) refer to the values after `state` rounds, now or on the thread
  // that applies the last of these rounds. Then `referred` is called once, perhaps under the
  // partition's lock: it must neither block nor call the partition. Only one image can wait; a
  // later one replaces it. OUT_OF_RANGE: more rounds are applied, and `referred` is not called.
  // Without rounds, the image refers to the values of now.
  virtual absl::Status ReferAt(uint64_t state, PartitionImage& image,
                               std::function<void()> referred);
  // Drops a waiting image, whose `referred` is not called any more.
  virtual void ForgetImage() {}

 private:
  const Facts facts_;
  const std::shared_ptr<PinnedBytes> pinned_;  // shared with replies, which may outlive this
};

// The contents of a partition at one moment, on their way into a file. Used by one thread, except
// that a pushing thread may call ReferHeld (Partition::ReferAt).
class PartitionImage {
 public:
  using AppendFn = std::function<absl::Status(std::string_view bytes)>;

  virtual ~PartitionImage() = default;
  // Refers to the contents of now, under the partition's lock for a moment.
  virtual void Refer() = 0;
  // Refer in two parts: Prepare allocates without the lock, ReferHeld refers under the lock.
  virtual void Prepare() {}
  virtual void ReferHeld() = 0;
  // Copies the values, if the image was made with `copied`. Called without the lock.
  virtual void Copy() {}

  // After Refer:
  virtual const Partition::Counts& counts() const = 0;
  virtual std::vector<TensorInfo> tensors() const = 0;
  virtual PartitionMetadata metadata() const = 0;
  // Hands the bytes of the tensors, in the order of tensors(), to `append`, once, and keeps none.
  // ABORTED: a newer image has replaced this one, or changed rows were miscounted.
  // RESOURCE_EXHAUSTED: ImageOrder::snapshots was full for too long.
  virtual absl::Status Write(const AppendFn& append) = 0;
};

// A partition without rounds has the same values in every state.
inline absl::Status Partition::ReferAt(uint64_t /*state*/, PartitionImage& image,
                                       std::function<void()> referred) {
  image.Refer();
  referred();
  return absl::OkStatus();
}

}  // namespace paracord
