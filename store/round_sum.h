// The sum of one partition's gradients in the round under way: the tree of exchange/lane_sum.h over
// the lanes, whose nodes are added as soon as both children are there. The sum is pending: neither
// ledgers nor checkpoints know of it, and a new generation drops it. Take decodes a gradient into a
// buffer, or adds it to its sibling's buffer, so nothing of a request is kept. At most half of the
// lanes' gradients, rounded up, are held; the next round reuses the buffers, and a round of one
// lane needs none.
//
// Guarded by the lock of its partition, except that any thread may ask WantsBuffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/memory_need.h"
#include "exchange/lane_sum.h"
#include "store/gradient.h"
#include "store/partition.h"

namespace paracord {

// A push: the sum of a run of lanes.
struct LaneRun {
  uint32_t first = 0;
  uint32_t count = 1;
  uint64_t examples = 0;  // total of the lanes
  bool rejected = false;  // a single lane entered without gradient; examples is 0
};

class RoundSum {
 public:
  enum class LaneOutcome {
    kTaken,    // the round waits for other lanes
    kAlready,  // the sum has all lanes of the push; nothing changed
    kPartly,   // the sum has some lanes; nothing changed, they have to come one by one
    kWhole,    // the last push of the round: apply Mean
  };
  // A partition's gradient: all elements, or rows of them.
  struct Shape {
    uint64_t elements = 0;      // all rows' elements; 0: a growing table
    uint64_t row_elements = 0;  // 0 where rows are not named
    uint64_t first_row = 0;     // id of the first row
  };
  // The gradient in a node.
  struct Buffer {
    bool all = false;  // all elements, without ids
    SummedRows rows;
  };

  // `batch` is the examples of a whole batch.
  RoundSum(Shape shape, uint64_t batch) : shape_(shape), batch_(batch) {}

  // Begins a round of `lanes` lanes with an empty sum.
  void Begin(uint32_t lanes);
  // Drops a pending sum of a generation before `generation`.
  void BeginGeneration(uint64_t generation);
  // Calls BeginGeneration, then adds a push. `run` is a valid run (IsLaneRun) and `update` fits the
  // shape; an update without gradient counts as zeros. Rows of a gradient that is not flat are
  // decoded here, slowly, under the lock. Uses `fresh` only where a buffer is missing.
  LaneOutcome Take(uint64_t generation, const LaneRun& run, const PartitionUpdate& update,
                   std::unique_ptr<Buffer>& fresh);
  // The mean over the examples of all lanes that were not rejected, once the round is whole; none
  // if no lane has a gradient. May refer to the update of the last Take, and is valid until Begin.
  const PartitionUpdate& Mean();
  // The mean in a buffer of the sum: it refers to no update.
  const PartitionUpdate& HeldMean();
  // Multiplies the mean returned by HeldMean.
  void Scale(float factor);

  // Whether the next gradient may need a new buffer: the caller then makes one with MakeBuffer
  // before it takes the lock, instead of Take under the lock.
  bool WantsBuffer() const { return wants_buffer_.load(std::memory_order_relaxed); }
  std::unique_ptr<Buffer> MakeBuffer() const;

  uint32_t lanes() const { return lanes_; }
  bool whole() const { return taken_ == lanes_; }
  uint64_t generation() const { return generation_; }
  // Whether no lane in the sum has examples.
  bool no_examples() const { return examples_ == 0; }
  bool Has(uint32_t lane) const { return has_[lane]; }
  bool rejected(uint32_t lane) const { return rejected_[lane]; }
  // The missing lanes, ascending, `most` at most.
  std::vector<uint32_t> Missing(size_t most) const;
  // Calls use(buffer) for each buffer with a sum of the round.
  template <class Use>
  void ForSums(const Use& use) const {
    for (const Node& node : nodes_) {
      if (node.sum != nullptr) use(*node.sum);
    }
  }
  // Gives back the memory that waits for later rounds.
  void ReleaseSpare();
  uint64_t bytes() const;  // in all buffers
  size_t buffers() const { return buffers_; }
  static uint32_t BuffersMax(uint32_t lanes) { return RoundSumsMax(lanes); }

 private:
  struct Node {
    bool whole = false;           // all lanes below are in the sum
    std::unique_ptr<Buffer> sum;  // null: no lane has a gradient, or the parent's sum has them
  };

  bool IsWhole(size_t node) const;
  // `update` is null if the run has no gradient.
  void AddToTree(const LaneRun& run, const PartitionUpdate* update, std::unique_ptr<Buffer>& fresh);
  void Decode(const PartitionUpdate& update, Buffer& buffer);
  void Add(const PartitionUpdate& update, Buffer& sum);
  void Add(const Buffer& other, Buffer& sum) const;
  void AddFlat(bool all, std::span<const uint64_t> ids, std::span<const float> values,
               Buffer& sum) const;
  std::unique_ptr<Buffer> TakeBuffer(std::unique_ptr<Buffer>& fresh);
  void SayWhatIsWanted();

  const Shape shape_;
  const uint64_t batch_;
  uint32_t lanes_ = 0;
  uint64_t generation_ = 0;
  uint64_t examples_ = 0;
  uint32_t taken_ = 0;  // lanes in the sum
  std::vector<bool> has_, rejected_;
  // A heap: node 1 is the root, the children of node n are 2n and 2n + 1, and the leaves are last.
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Buffer>> spare_;
  size_t buffers_ = 0;                     // in nodes and spare_
  const PartitionUpdate* only_ = nullptr;  // the round's only gradient, which is in no buffer
  PartitionUpdate mean_;
  std::vector<float> decoded_;  // decoded rows of a gradient that was encoded or in pieces
  std::atomic<bool> wants_buffer_ = false;
};

}  // namespace paracord
