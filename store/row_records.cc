#include "store/row_records.h"

#include <algorithm>

#include "common/mix.h"
#include "common/prefetch.h"

namespace paracord {
namespace {

constexpr uint64_t kLineFloats = 64 / sizeof(float);
constexpr uint64_t kAheadFloatsMax = 16 * kLineFloats;

// A look collects at least kFoundMin rows, or one in kFoundShare of all.
constexpr size_t kFoundMin = 4096;
constexpr size_t kFoundShare = 64;

}  // namespace

void RowRecords::Prefetch(uint32_t row, uint64_t elements) const {
  const float* const at = memory_.Row(row);
  for (uint64_t i = 0; i < std::min(header_ + elements, kAheadFloatsMax); i += kLineFloats) {
    PrefetchToWrite(at + i);
  }
}

uint32_t RowRecords::Add() {
  if (free_.empty()) return memory_.Append();
  const uint32_t row = free_.back();
  free_.pop_back();
  return row;
}

void RowRecords::Remove(uint32_t row) {
  At(row).End();
  free_.push_back(row);
}

void RowRecords::KeepLive(std::vector<float>& words, uint32_t now, uint64_t ages) const {
  const uint64_t width = record_words();
  size_t kept = 0;
  for (size_t at = 0; at < words.size(); at += width) {
    const Record record(&words[at], header_);
    if (!record.live() || ((now - record.touched()) & kTouchedMask) >= ages) continue;
    // An id is no float and is not copied as one.
    if (kept != at) std::memcpy(&words[kept], &words[at], width * sizeof(float));
    kept += width;
  }
  words.resize(kept);
}

bool OldestRows::Before(const Row& a, const Row& b) const {
  const uint32_t age_a = (looked_ - a.touched) & kTouchedMask;
  const uint32_t age_b = (looked_ - b.touched) & kTouchedMask;
  return age_a != age_b ? age_a > age_b : a.hash < b.hash;
}

OldestRows::Row OldestRows::RowAt(const RowRecords& records, uint32_t row) const {
  const RowRecords::Record record = records.At(row);
  return {Mix64(record.id() ^ key_), record.touched(), row};
}

bool OldestRows::IsAsFound(const RowRecords& records, const Row& row) const {
  const RowRecords::Record record = records.At(row.row);
  return record.live() && record.touched() == row.touched && Mix64(record.id() ^ key_) == row.hash;
}

std::optional<uint32_t> OldestRows::Find(const RowRecords& records, uint32_t now) {
  const auto after = [this](const Row& a, const Row& b) { return Before(b, a); };
  while (true) {
    for (; !rows_.empty(); rows_.pop_back()) {
      if (IsAsFound(records, rows_.front())) return rows_.front().row;
      std::ranges::pop_heap(rows_, after);
    }
    Look(records, now);
    if (rows_.empty()) return std::nullopt;
    std::ranges::make_heap(rows_, after);
  }
}

// A row of a later batch than the look's is younger than all that the look found.
void OldestRows::Added(const RowRecords& records, uint32_t row, uint32_t now) {
  if (looked_ != now || rows_.empty()) return;
  const Row added = RowAt(records, row);
  if (end_.has_value() && !Before(added, *end_)) return;
  rows_.push_back(added);
  std::ranges::push_heap(rows_, [this](const Row& a, const Row& b) { return Before(b, a); });
}

uint64_t OldestRows::CountOlder(const RowRecords& records, uint32_t now, uint64_t ages) const {
  return static_cast<uint64_t>(std::ranges::count_if(rows_, [&](const Row& row) {
    return ((now - row.touched) & kTouchedMask) > ages && IsAsFound(records, row);
  }));
}

void OldestRows::Look(const RowRecords& records, uint32_t now) {
  looked_ = now;
  end_.reset();
  const size_t most = std::max(kFoundMin, records.rows() / kFoundShare);
  for (uint64_t i = 0; i < records.rows(); ++i) {
    const auto row = static_cast<uint32_t>(i);
    if (!records.At(row).live()) continue;
    const Row found = RowAt(records, row);
    if (end_.has_value() && !Before(found, *end_)) continue;
    rows_.push_back(found);
    if (rows_.size() == 2 * most) KeepOldest(most);
  }
  if (rows_.size() > most) KeepOldest(most);
}

void OldestRows::KeepOldest(size_t most) {
  const auto last = rows_.begin() + static_cast<int64_t>(most) - 1;
  std::nth_element(rows_.begin(), last, rows_.end(),
                   [this](const Row& a, const Row& b) { return Before(a, b); });
  end_ = *last;
  rows_.resize(most);
}

}  // namespace paracord
