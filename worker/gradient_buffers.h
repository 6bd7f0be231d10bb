// Buffers with the gradients of steps. Encodes gradients together with the residuals of earlier
// pushes, and cuts the variables into partitions to push. The executor writes the arrays of a
// buffer while no exchange uses the buffer; everything else runs on the loop. No I/O.
//
// Of tables, a buffer has gradients of the rows that the step reads, and pushes the rows in the
// wire's dense encoding, without compression.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/shared_memory.h"
#include "exchange/codec.h"
#include "proto/paracord.pb.h"
#include "worker/partition_layout.h"
#include "worker/residuals.h"
#include "worker/table_rows.h"
#include "worker/transfer_options.h"

namespace paracord {

class GradientBuffers {
 public:
  // `layout` and `variables` must outlive the buffers.
  GradientBuffers(const PartitionLayout& layout, std::span<const VariableSpec> variables,
                  const TransferOptions& transfer, size_t buffers);

  // Makes the arrays of a buffer without arrays, which takes long for large models. Called on the
  // executor before gradients are computed. `rows`: rows of tables that the step reads.
  void Prepare(uint32_t buffer, SharedRows rows = nullptr);
  // A call may still be sending the arrays, so the next Prepare makes new ones.
  void GiveUp(uint32_t buffer) { buffers_[buffer].usable = false; }
  // Returns the arrays by variable; empty before Prepare.
  std::span<const std::span<float>> arrays(uint32_t buffer) const { return buffers_[buffer].spans; }
  bool Finite(uint32_t buffer, size_t variable) const;
  // Encodes a variable's gradient for its pushes. Returns false if the gradient is not finite in
  // the encoding.
  bool Encode(uint32_t buffer, size_t variable);

  // Whether the buffer has elements of a partition.
  bool Has(const PartitionReplica& replica, uint32_t buffer) const;
  // Describes a partition's push in `push` and appends pieces with row ids and encoded gradient,
  // which share the buffer's memory. `staged`: the pieces left before, so none are appended.
  void Push(const PartitionReplica& replica, uint32_t buffer, bool staged, PartitionPush& push,
            std::vector<PieceView>& pieces) const;
  Residuals& residuals() { return residuals_; }

 private:
  using Floats = std::vector<float, SharedAllocator<float>>;
  using Bytes = std::vector<char, SharedAllocator<char>>;

  // Memory that calls under way point to.
  struct Sent {
    std::vector<Floats> gradients;  // index: variable
    std::vector<Bytes> encoded;     // index: PartitionReplica::index; empty: floats are sent
  };
  struct Buffer {
    std::shared_ptr<Sent> sent;
    std::vector<std::span<float>> spans;
    SharedRows rows;  // rows of tables
    bool usable = false;
  };

  bool EncodeRange(const PartitionReplica& replica, Sent& sent, uint64_t start, uint64_t first,
                   uint64_t count);
  PieceView PieceOf(const PartitionReplica& replica, uint32_t buffer) const;

  const PartitionLayout& layout_;
  const std::span<const VariableSpec> variables_;
  const TransferOptions transfer_;
  std::vector<Encoding> encodings_;  // index: PartitionReplica::index
  std::vector<Buffer> buffers_;
  Residuals residuals_;
};

}  // namespace paracord
