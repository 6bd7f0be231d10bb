// The rows of one partition of a growing table while the links of its chain are read, the oldest
// first. A link is taken over as soon as it has been read and verified, and its memory is let go of
// then, so that a chain takes the memory of one table and of the link under way. Of each row the
// id, the batch that touched it, and the values are kept, or their averages where there are some.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"

namespace paracord {

class FoldedRows {
 public:
  // `variable` outlives this object.
  explicit FoldedRows(const VariableSpec& variable);

  // Returns the memory for a tensor of the link under way; empty if the tensor is not wanted.
  TensorPlace PlaceOf(std::string_view slot, uint64_t elements);
  // Takes over the link under way, of which `stored` is told. DATA_LOSS: a changed row
  // stands twice, or the partition does not have as many rows then as the link says; the message
  // lacks the partition's name.
  absl::Status EndLink(const StoredPartition& stored);

  struct Row {
    uint64_t id = 0;
    const float* values = nullptr;  // as many as a row of the variable has
  };
  // Appends the rows that have not expired, in no order. The pointers are valid as long as this
  // object is neither changed nor destroyed.
  void AppendRows(std::vector<Row>& rows) const;

 private:
  // Rows side by side, in no order.
  struct Block {
    std::vector<uint64_t> ids;
    std::vector<uint32_t> touched;
    std::vector<float> values;
  };
  // The places of records in the link under way, by id; kGone: the row is removed or taken over.
  using Changes = absl::flat_hash_map<uint64_t, uint32_t>;
  static constexpr uint32_t kGone = UINT32_MAX;

  uint64_t records() const { return words_.size() / record_words_; }
  uint64_t IdOf(uint64_t record) const;
  Block NewBlock(size_t rows) const;
  void Append(Block& block, uint64_t record) const;
  void Put(Block& block, size_t at, uint64_t record) const;
  void RemoveAt(Block& block, size_t at) const;
  // Replaces and removes rows of a block that the link under way speaks of.
  void Change(Block& block, Changes& changes) const;
  void TakeAll();
  absl::Status TakeChanges();

  const VariableSpec& variable_;
  const uint64_t width_;                         // elements of a row
  TableMetadata table_;                          // of the newest link
  uint64_t record_words_ = 1, values_word_ = 0;  // of the link under way
  std::vector<float> words_, removed_;           // of the link under way; an id has two words
  std::vector<Block> blocks_;
};

}  // namespace paracord
