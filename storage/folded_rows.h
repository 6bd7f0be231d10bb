// The rows of a growing table's partition, merged from a chain of checkpoints (storage/chain.h). A
// link of the chain is one checkpoint's part: the oldest link has all rows, and the others have
// what changed. Each link is merged once it is verified, and its memory is freed, so that a chain
// takes the memory of the merged rows and of one link. Of each row the object keeps the id, the
// number of the last batch that changed the row, and the averages of its values, or the values if
// there are no averages. Not thread-safe.
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
  // `variable` must outlive this object.
  explicit FoldedRows(const VariableSpec& variable);

  // Returns the memory for a tensor of the current link. Empty: the tensor is not wanted.
  TensorPlace PlaceOf(std::string_view slot, uint64_t elements);
  // Merges the current link, whose state is `stored`. Returns DATA_LOSS, without the partition's
  // name, if `stored` has no state of a table, or if a link of changes has a row twice or does not
  // lead to as many rows as `stored` says.
  absl::Status EndLink(const StoredPartition& stored);

  struct Row {
    uint64_t id = 0;
    const float* values = nullptr;  // (width of the variable)
  };
  // Appends the rows that have not expired, in no order. The pointers are valid until this object
  // changes.
  void AppendRows(std::vector<Row>& rows) const;

 private:
  // Rows in contiguous memory, unordered.
  struct Block {
    std::vector<uint64_t> ids;
    std::vector<uint32_t> touched;
    std::vector<float> values;
  };
  // The index of an id's record in the current link. kGone: the row is removed, or already merged.
  using Changes = absl::flat_hash_map<uint64_t, uint32_t>;
  static constexpr uint32_t kGone = UINT32_MAX;

  uint64_t records() const { return words_.size() / record_words_; }
  uint64_t IdOf(uint64_t record) const;
  Block NewBlock(size_t rows) const;
  void Append(Block& block, uint64_t record) const;
  void Put(Block& block, size_t at, uint64_t record) const;
  void RemoveAt(Block& block, size_t at) const;
  // Replaces and removes the rows of a block whose ids are in `changes`.
  void Change(Block& block, Changes& changes) const;
  void TakeAll();
  absl::Status TakeChanges();

  const VariableSpec& variable_;
  const uint64_t width_;  // elements in a row
  TableMetadata table_;   // metadata of the newest link
  // Of the current link: the words (floats) in a row's record, and the first word of its values or
  // averages there; the records, and the ids of removed rows. An id takes two words.
  uint64_t record_words_ = 1, values_word_ = 0;
  std::vector<float> words_, removed_;
  std::vector<Block> blocks_;
};

}  // namespace paracord
