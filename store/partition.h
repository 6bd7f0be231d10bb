// A partition of a variable, with its ledger, under one lock: a push is applied whole or not at
// all. Dense partitions move whole (store/dense_partition.h), tables by row
// (store/table_partition.h); steps, snapshots and descriptions use only this interface.
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

// References to a tensor's chunks, of one moment.
using ChunkRefs = std::vector<ChunkRef>;

// The generation of a push. Once a newer generation begins, it may have read the ledgers and
// decided by them: a batch that the ledgers did not have by then must never be entered.
class PushFence {
 public:
  PushFence() = default;  // no generation
  // `newest` must outlive the fence.
  PushFence(const std::atomic<uint64_t>& newest, uint64_t generation)
      : newest_(&newest), generation_(generation) {}
  bool over() const { return newest_ != nullptr && *newest_ != generation_; }
  uint64_t generation() const { return generation_; }
  // The fence of an admitted push, whose end a newer generation waits for.
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
  Gradient gradient;  // empty: no gradient
  Rows rows;          // rows of the gradient
  bool none() const { return gradient.empty() && !rows.has_value(); }
};

// An image may be limited to the rows changed since an earlier image, known by its checkpoint,
// `base`. `own` is the checkpoint to be made from the image, if a later checkpoint may continue it.
struct ImageOrder {
  std::optional<CheckpointName> base = {};
  std::optional<CheckpointName> own = {};
  // Counts the old values of rows that change during the image; null: not counted. If the share is
  // full, pushes wait so long for the image; then the image ends.
  MemoryShare* snapshots = nullptr;
  int64_t push_wait_ms = 0;
};

class PartitionImage;

class Partition {
 public:
  // The state of the values to read, in rounds of the job; nullopt: the current values.
  using AtState = std::optional<uint64_t>;
  struct Facts {
    uint32_t id = 0;
    std::string name;
    std::vector<uint64_t> shape;
    bool trained = false;
    uint64_t bytes = 0;      // size of all values, if they can travel as a whole
    uint64_t row_begin = 0;  // the variable's first row in this partition
    uint32_t variable = 0;   // index in the job's variables
  };
  struct Counts {
    PartitionLedger ledger;
    uint64_t updates = 0;
    bool healthy = true;
    std::optional<TableCounts> table = {};  // only for a growing table
    // In synchronous training: the rounds of the job in the values, and whether the values one
    // round earlier are served, too.
    uint64_t state = 0;
    bool serves_before = false;
    double learning_rate = 0;  // in the newest or first step
  };

  // What keeps the values of a state from being read.
  struct Lack {
    std::vector<uint32_t> lanes = {};  // ascending, kMissingLanesMax at most
    bool norms = false;                // all lanes are here, and the round waits for its norms
    bool any() const { return norms || !lanes.empty(); }
  };
  // In a synchronous job that clips by norm: the sum of squares of the mean of a round.
  struct MeanSquares {
    uint64_t round = 0;  // rounds of the job before the round
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
  // Says why the partition lacks some of these rows; "" if it has all. Ids ascend and are distinct.
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
  // The bytes that a push takes beside resident_bytes() until its round is over: in a synchronous
  // job at most, for a table's rows in sums and before the round. 0 where memory is reserved from
  // the start.
  virtual uint64_t RoundBytesOf(const PartitionUpdate& /*update*/) const { return 0; }
  // Frees the memory kept for the rows of later rounds.
  virtual void ReleaseRoundBytes() {}

  // Enters the batch if it is next, and applies the update unless the update is empty or the batch
  // is rejected. In synchronous training, takes the batch into the sum of its round, and enters and
  // applies the whole round with its last batch. The gradient is finite and has the elements of the
  // partition or of `update.rows`; only tables get rows. PUSH_NONE: the generation is over. If a
  // job clips rounds by norm, a whole round waits for TakeNorms, unless all of its lanes are
  // rejected.
  virtual Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                       const PushFence& fence) = 0;
  // Enters, clips and applies the round that waits for norms. `norms` has all variables and no NaN.
  // Norms of another round or generation, or smaller than this partition's own squares, change
  // nothing. Returns whether the round has been applied.
  virtual bool TakeNorms(const RoundNorms& /*norms*/, const PushFence& /*fence*/) { return false; }
  // The squares of the round that waits for norms in this generation, or of the last applied round;
  // nullopt: neither exists.
  virtual std::optional<MeanSquares> SquaresOfMean(uint64_t /*generation*/) const { return {}; }
  // Sets the learning rate of future updates. Returns false if the caller's generation is over.
  virtual bool SetLearningRate(const LearningRate& rate, const PushFence& fence) = 0;

  // Returns the count of updates, and in `values` the values with this count. Not for tables. With
  // a state, in synchronous training: the values after so many rounds. OUT_OF_RANGE names the
  // partition, which lacks the state.
  virtual absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const = 0;
  uint64_t Pull(ChunkRefs& values) const { return PullAt({}, values).value(); }
  // Copies rows of a table, ascending and distinct, to `values`, and returns the count of updates;
  // errors as PullAt.
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
  // What keeps the values of a state from being read: lanes missing from the ledger
  // (store/round_gate.h), or in synchronous training from the round's sum, or norms. OUT_OF_RANGE
  // names the partition, which is past the state and no longer serves it.
  virtual absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const = 0;

  // An image that refers to nothing yet. `copied`: the image copies the values, and pushes need not
  // preserve anything (tables never copy: they preserve single rows). The partition must outlive
  // the image. The image is whole, unless the partition is a table that knows the changes since
  // `order.base`.
  virtual std::unique_ptr<PartitionImage> NewImage(bool copied,
                                                   const ImageOrder& order = {}) const = 0;
  // In synchronous training: makes `image` (from NewImage) refer to the values after `state`
  // rounds, now or on the thread that applies the last of these rounds. Then `referred` is called
  // once, perhaps under the partition's lock: it must neither block nor call the partition. Only
  // one image can wait; a later one replaces it. OUT_OF_RANGE: more rounds are applied, and
  // `referred` is not called.
  virtual absl::Status ReferAt(uint64_t state, PartitionImage& image,
                               std::function<void()> referred);
  // Drops a waiting image, whose `referred` is not called any more.
  virtual void ForgetImage() {}

 private:
  const Facts facts_;
  const std::shared_ptr<PinnedBytes> pinned_;  // shared with replies, which may outlive us
};

// The contents of a partition at one moment, on their way into a file. Used by one thread.
class PartitionImage {
 public:
  using AppendFn = std::function<absl::Status(std::string_view bytes)>;

  virtual ~PartitionImage() = default;
  // Makes it the image of now, by references, under the partition's lock for a moment.
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
  // Hands out the bytes of the tensors in order, once, and keeps nothing. ABORTED: a newer image
  // has replaced this one.
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
