#include "storage/folded_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/chain.h"

namespace paracord {
namespace {

constexpr uint64_t kTouchedWord = kRowIdWords;  // word of a record with its last batch

uint64_t IdAt(const std::vector<float>& words, uint64_t word) {
  uint64_t id = 0;
  std::memcpy(&id, &words[word], sizeof id);
  return id;
}

}  // namespace

FoldedRows::FoldedRows(const VariableSpec& variable)
    : variable_(variable), width_(RowElements(variable)) {}

TensorPlace FoldedRows::PlaceOf(std::string_view slot, uint64_t elements) {
  if (slot != kRowsSlot && slot != kRemovedSlot) return TensorPlace();
  std::vector<float>& words = slot == kRowsSlot ? words_ : removed_;
  words.resize(elements);
  return TensorPlace{words};
}

uint64_t FoldedRows::IdOf(uint64_t record) const { return IdAt(words_, record * record_words_); }

void FoldedRows::Put(Block& block, size_t at, uint64_t record) const {
  const float* const from = &words_[record * record_words_];
  std::memcpy(&block.touched[at], from + kTouchedWord, sizeof(uint32_t));
  std::copy_n(from + values_word_, width_, &block.values[at * width_]);
}

FoldedRows::Block FoldedRows::NewBlock(size_t rows) const {
  Block block;
  block.ids.reserve(rows);
  block.touched.reserve(rows);
  block.values.reserve(rows * width_);
  return block;
}

void FoldedRows::Append(Block& block, uint64_t record) const {
  block.ids.push_back(IdOf(record));
  block.touched.push_back(0);
  block.values.resize(block.values.size() + width_);
  Put(block, block.ids.size() - 1, record);
}

void FoldedRows::RemoveAt(Block& block, size_t at) const {
  const size_t last = block.ids.size() - 1;
  block.ids[at] = block.ids[last];
  block.touched[at] = block.touched[last];
  if (at != last) {
    std::copy_n(&block.values[last * width_], width_, &block.values[at * width_]);
  }
  block.ids.pop_back();
  block.touched.pop_back();
  block.values.resize(last * width_);
}

void FoldedRows::Change(Block& block, Changes& changes) const {
  for (size_t at = 0; at < block.ids.size();) {
    const auto found = changes.find(block.ids[at]);
    if (found == changes.end()) {
      ++at;
    } else if (found->second == kGone) {
      RemoveAt(block, at);
    } else {
      Put(block, at++, found->second);
      found->second = kGone;
    }
  }
}

void FoldedRows::TakeAll() {
  Block block = NewBlock(records());
  for (uint64_t r = 0; r < records(); ++r) Append(block, r);
  blocks_.clear();
  blocks_.push_back(std::move(block));
}

// Removes the removed ids first, then replaces and adds the changed rows.
absl::Status FoldedRows::TakeChanges() {
  Changes changes;
  changes.reserve(records() + removed_.size() / kRowIdWords);
  for (uint64_t word = 0; word + kRowIdWords <= removed_.size(); word += kRowIdWords) {
    changes[IdAt(removed_, word)] = kGone;
  }
  for (uint64_t r = 0; r < records(); ++r) {
    uint32_t& record = changes.try_emplace(IdOf(r), kGone).first->second;
    if (record != kGone) return ChangedTwice(IdOf(r));
    record = static_cast<uint32_t>(r);
  }
  for (Block& block : blocks_) Change(block, changes);
  const auto fresh = static_cast<size_t>(
      std::ranges::count_if(changes, [](const auto& one) { return one.second != kGone; }));
  Block block = NewBlock(fresh);
  for (const auto& [id, record] : changes) {
    if (record != kGone) Append(block, record);
  }
  blocks_.push_back(std::move(block));
  return absl::OkStatus();
}

absl::Status FoldedRows::EndLink(const StoredPartition& stored) {
  if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
  table_ = *stored.table;
  record_words_ = RecordWords(table_, width_);
  values_word_ = ValuesWord(table_, width_);
  if (table_.since.has_value()) {
    RETURN_IF_ERROR(TakeChanges());
  } else {
    TakeAll();
  }
  words_ = {};
  removed_ = {};
  uint64_t rows = 0;
  for (const Block& block : blocks_) rows += block.ids.size();
  return table_.since.has_value() ? CheckRowsAfter(table_, rows) : absl::OkStatus();
}

void FoldedRows::AppendRows(std::vector<Row>& rows) const {
  const uint64_t expire = variable_.table().expire_batches();
  for (const Block& block : blocks_) {
    for (size_t at = 0; at < block.ids.size(); ++at) {
      if (HasExpired(table_, block.touched[at], expire)) continue;
      rows.push_back({block.ids[at], &block.values[at * width_]});
    }
  }
}

}  // namespace paracord
