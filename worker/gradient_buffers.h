// Buffers with gradients, each for one batch at a time. Encodes gradients together with the
// residuals of earlier pushes, and cuts the variables into partitions to push. Prepare, Finite and
// Encode run on the executor, while no exchange sends the gradients of that buffer; `arrays` is
// called on the executor and on the event loop, everything else on the event loop. No I/O.
//
// Of a table, a buffer has the gradients of the rows that the batch reads, and pushes these rows in
// the encoding of the job's `wire`, without compression.
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

  // Makes new arrays for a buffer that has none or was given up, which takes long for large models.
  // Called before gradients are computed. `rows`: the rows of tables that the batch reads.
  void Prepare(uint32_t buffer, SharedRows rows = nullptr);
  // A call may still be sending the arrays of the buffer, so the next Prepare makes new arrays.
  void GiveUp(uint32_t buffer) { buffers_[buffer].usable = false; }
  // Returns an array for each variable, empty for an untrained variable; no arrays before Prepare.
  std::span<const std::span<float>> arrays(uint32_t buffer) const { return buffers_[buffer].spans; }
  bool Finite(uint32_t buffer, size_t variable) const;
  // Encodes a variable's gradient, except partitions that are pushed as float32. Returns false if
  // the encoded gradient is not finite.
  bool Encode(uint32_t buffer, size_t variable);

  // Whether the buffer's arrays have elements of a partition.
  bool Has(const PartitionReplica& replica, uint32_t buffer) const;
  // Describes a partition's push in `push`. Unless `staged`, appends the ids of rows and the
  // encoded gradient to `pieces`; the gradient shares the buffer's memory. `staged`: ids and
  // gradient were sent before the exchange.
  void Push(const PartitionReplica& replica, uint32_t buffer, bool staged, PartitionPush& push,
            std::vector<PieceView>& pieces) const;
  Residuals& residuals() { return residuals_; }

 private:
  using Floats = std::vector<float, SharedAllocator<float>>;
  using Bytes = std::vector<char, SharedAllocator<char>>;

  // Memory that calls under way may point to.
  struct Sent {
    std::vector<Floats> gradients;  // index: variable
    std::vector<Bytes> encoded;     // index: PartitionReplica::index; empty for float32
  };
  struct Buffer {
    std::shared_ptr<Sent> sent;
    std::vector<std::span<float>> spans;
    SharedRows rows;      // the rows of tables that the batch reads
    bool usable = false;  // false: Prepare has to make new arrays
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
