// The sum of one partition's gradients in the round under way: the tree of exchange/lane_sum.h over
// the lanes of the round, of which a node is added up as soon as both sides are there. What is in
// the sum is pending: neither ledgers nor checkpoints know of it, and a new generation drops it. A
// gradient is decoded into a buffer of the sum, or added to its sibling's, before Take returns, so
// nothing of a request is kept. At most half of the lanes' gradients, rounded up, are held; their
// buffers serve the next round again, and a round of one lane needs none.
//
// Guarded by the lock of its partition, except that any thread may ask WantsBuffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/lane_sum.h"
#include "store/gradient.h"
#include "store/partition.h"

namespace paracord {

// The lanes that a push is the sum of.
struct LaneRun {
  uint32_t first = 0;
  uint32_t count = 1;
  uint64_t examples = 0;  // of the lanes together
  bool rejected = false;  // a lane that is entered without a gradient; it has no examples
};

class RoundSum {
 public:
  enum class Taken {
    kTaken,    // it waits for other lanes
    kAlready,  // all of its lanes are in the sum; nothing changed
    kPartly,   // some of its lanes are; nothing changed, they have to come one by one
    kWhole,    // it was the last of the round: Mean is to be applied
  };
  // A partition's gradient: all elements, or rows of them.
  struct Shape {
    uint64_t elements = 0;      // of all rows; 0 for a growing table
    uint64_t row_elements = 0;  // 0 where rows are not named
    uint64_t first_row = 0;     // the id of the first of all rows
  };
  // What a node holds.
  struct Buffer {
    bool all = false;  // all elements, and no ids
    SummedRows rows;
  };

  // `batch` is the examples of a whole batch.
  RoundSum(Shape shape, uint64_t batch) : shape_(shape), batch_(batch) {}

  // Begins a round of `lanes` lanes, of which nothing is in the sum.
  void Begin(uint32_t lanes);
  // Drops what is pending of older generations than a push that has come.
  void BeginGeneration(uint64_t generation);
  // Begins the generation and adds a push of the round. The run is one (IsLaneRun) and the update
  // fits the shape; an update without a gradient counts as the other side of each sum. Rows whose
  // gradient is not flat are decoded here, which is slow under a lock. `fresh` is taken only where
  // a buffer is missing.
  Taken Take(uint64_t generation, const LaneRun& run, const PartitionUpdate& update,
             std::unique_ptr<Buffer>& fresh);
  // The mean over the examples of all lanes that were not rejected, once the round is whole; none
  // if no lane has a gradient. May refer to the update of the last Take, and is valid until Begin.
  const PartitionUpdate& Mean();
  // The same in a buffer of the sum, so that it refers to no update.
  const PartitionUpdate& HeldMean();
  // Multiplies the mean that is held.
  void Scale(float factor);

  // Whether a gradient that comes now may lack a buffer: MakeBuffer can make one before the lock is
  // taken, which Take would make under the lock.
  bool WantsBuffer() const { return wants_buffer_.load(std::memory_order_relaxed); }
  std::unique_ptr<Buffer> MakeBuffer() const;

  uint32_t lanes() const { return lanes_; }
  bool whole() const { return taken_ == lanes_; }
  uint64_t generation() const { return generation_; }
  // Whether no lane that is in the sum has any.
  bool no_examples() const { return examples_ == 0; }
  bool Has(uint32_t lane) const { return has_[lane]; }
  bool rejected(uint32_t lane) const { return rejected_[lane]; }
  // The lanes that lack, ascending, `most` of them at most.
  std::vector<uint32_t> Missing(size_t most) const;
  // Calls use(buffer) for each that holds a sum of the round.
  template <class Use>
  void ForSums(const Use& use) const {
    for (const Node& node : nodes_) {
      if (node.sum != nullptr) use(*node.sum);
    }
  }
  // Gives back the memory that waits for later rounds.
  void ReleaseSpare();
  uint64_t bytes() const;  // of all buffers
  size_t buffers() const { return buffers_; }
  static uint32_t BuffersMax(uint32_t lanes) { return (lanes + 1) / 2; }

 private:
  struct Node {
    bool whole = false;           // all of its lanes are in
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
  uint32_t taken_ = 0;  // lanes
  std::vector<bool> has_, rejected_;
  // A heap: node 1 is the root, the children of node n are 2n and 2n + 1, and the leaves are last.
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Buffer>> spare_;
  size_t buffers_ = 0;                     // of nodes, and spare ones
  const PartitionUpdate* only_ = nullptr;  // the round's only gradient, which is in no buffer
  PartitionUpdate mean_;
  std::vector<float> decoded_;  // of rows whose gradient came in pieces or encoded
  std::atomic<bool> wants_buffer_ = false;
};

}  // namespace paracord
