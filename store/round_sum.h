// The sum of one partition's gradients in the round under way: the tree of exchange/lane_sum.h over
// the lanes. Two siblings in the tree are added as soon as both are there, and no order of arrival
// changes a bit of the result. The sum is pending: neither ledgers nor checkpoints know of it, and
// a new generation drops it. Take decodes a gradient into a buffer, or adds it to its sibling's
// buffer, and keeps nothing of a request. The next round uses the buffers again; there are at most
// half as many buffers as the largest round has lanes, rounded up.
//
// Guarded by the lock of its partition, except that any thread may call WantsBuffer and MakeBuffer.
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

// The lanes of a push, whose gradient is the sum of the lanes': `count` lanes from `first` on.
struct LaneRun {
  uint32_t first = 0;
  uint32_t count = 1;
  uint64_t examples = 0;  // total of the lanes
  bool rejected = false;  // a single lane without gradient; `examples` is 0
};

class RoundSum {
 public:
  enum class LaneOutcome {
    kTaken,    // added; the round waits for other lanes
    kAlready,  // the sum had all lanes of the push already; nothing changed
    kPartly,   // the sum has some of the lanes; unchanged, they have to come one by one
    kWhole,    // added; the sum has all lanes of the round now
  };
  // The shape of a partition's gradient.
  struct Shape {
    uint64_t elements = 0;      // elements of all rows; 0 for a growing table
    uint64_t row_elements = 0;  // elements of one row; 0 for a dense partition
    uint64_t first_row = 0;     // id of the partition's first row
  };
  // A partial sum: of the lanes below one node of the tree in which lanes are added.
  struct Buffer {
    bool all = false;  // whether `rows` has all elements, and no ids
    SummedRows rows;
  };

  // `batch` is the number of examples of a whole batch.
  RoundSum(Shape shape, uint64_t batch) : shape_(shape), batch_(batch) {}

  // Begins a round of `lanes` lanes with an empty sum.
  void Begin(uint32_t lanes);
  // Drops a pending sum of a generation before `generation`.
  void BeginGeneration(uint64_t generation);
  // Calls BeginGeneration, then adds a push. `run` is a valid run (IsLaneRun) and `update` fits the
  // shape; an update without gradient counts as zeros. Rows of a gradient that is not flat
  // (Gradient::Flat) are decoded here, slowly, under the lock. Takes `fresh`, which comes from
  // MakeBuffer or is null, if it needs one more buffer.
  LaneOutcome Take(uint64_t generation, const LaneRun& run, const PartitionUpdate& update,
                   std::unique_ptr<Buffer>& fresh);
  // The mean over the examples of all lanes that were not rejected, once the round is whole; none
  // if no lane has a gradient. It may refer to the update of the last Take. Valid until Begin.
  const PartitionUpdate& Mean();
  // Like Mean(), but the mean is in a buffer of RoundSum, never in the caller's update.
  const PartitionUpdate& HeldMean();
  // Multiplies the mean that HeldMean returned by `factor`.
  void Scale(float factor);

  // Whether the next gradient may need a new buffer. If so, the caller calls MakeBuffer before
  // taking the lock, because memory is allocated slowly.
  bool WantsBuffer() const { return wants_buffer_.load(std::memory_order_relaxed); }
  std::unique_ptr<Buffer> MakeBuffer() const;

  uint32_t lanes() const { return lanes_; }
  bool whole() const { return taken_ == lanes_; }
  uint64_t generation() const { return generation_; }
  // Whether the sum has no lanes but rejected ones.
  bool no_examples() const { return examples_ == 0; }
  bool Has(uint32_t lane) const { return has_[lane]; }
  bool rejected(uint32_t lane) const { return rejected_[lane]; }
  // The lanes that the sum lacks, ascending, at most `most`.
  std::vector<uint32_t> Missing(size_t most) const;
  // Calls use(buffer) for each buffer that has a sum of the round.
  template <class Use>
  void ForSums(const Use& use) const {
    for (const Node& node : nodes_) {
      if (node.sum != nullptr) use(*node.sum);
    }
  }
  // Frees the buffers that are kept for later rounds.
  void ReleaseSpare();
  uint64_t bytes() const;  // memory of all buffers, and of decoded rows
  size_t buffers() const { return buffers_; }
  static uint32_t BuffersMax(uint32_t lanes) { return RoundSumsMax(lanes); }

 private:
  struct Node {
    bool whole = false;           // the sum has all lanes below this node
    std::unique_ptr<Buffer> sum;  // null: no gradient, or it is in an ancestor's sum
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
  size_t buffers_ = 0;                     // number of buffers in nodes_ and spare_
  const PartitionUpdate* only_ = nullptr;  // the round's only gradient, if it is in no buffer
  PartitionUpdate mean_;
  std::vector<float> decoded_;  // rows of a gradient that was encoded or in pieces
  std::atomic<bool> wants_buffer_ = false;
};

}  // namespace paracord
