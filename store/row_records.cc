#include "store/row_records.h"

#include <algorithm>

#include "common/prefetch.h"

namespace paracord {
namespace {

constexpr uint64_t kLineFloats = 64 / sizeof(float);
constexpr uint64_t kAheadFloatsMax = 16 * kLineFloats;

// Among so many rows the oldest are looked for, and one in 16 of them is kept.
constexpr uint64_t kWindow = 512;
constexpr size_t kShare = 16;

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
  memory_.BeforeWrite({&row, 1});
  return row;
}

void RowRecords::Remove(uint32_t row) {
  memory_.BeforeWrite({&row, 1});
  At(row).End();
  free_.push_back(row);
}

std::vector<RowRecords::Record> RowRecords::RecordsOf(std::span<float> part) const {
  std::vector<Record> records;
  for (size_t at = 0; at < part.size(); at += memory_.row_floats()) {
    const Record record(&part[at], header_);
    if (record.live()) records.push_back(record);
  }
  return records;
}

void RowRecords::KeepLive(std::vector<float>& part, uint32_t now, uint64_t ages) const {
  const uint64_t words = record_words();
  size_t kept = 0;
  for (size_t at = 0; at < part.size(); at += words) {
    const Record record(&part[at], header_);
    if (!record.live() || ((now - record.touched()) & kTouchedMask) >= ages) continue;
    // An id is no float and is not copied as one.
    if (kept != at) std::memcpy(&part[kept], &part[at], words * sizeof(float));
    kept += words;
  }
  part.resize(kept);
}

uint32_t OldestRows::Take(const RowRecords& records, uint32_t now) {
  while (true) {
    if (rows_.empty()) Find(records, now);
    const Row oldest = rows_.back();
    rows_.pop_back();
    // Unless it was touched since.
    if (records.At(oldest.row).touched() == oldest.touched) return oldest.row;
  }
}

void OldestRows::Find(const RowRecords& records, uint32_t now) {
  const uint64_t count = std::min(kWindow, records.rows());
  for (uint64_t i = 0; i < count; ++i) {
    if (hand_ >= records.rows()) hand_ = 0;
    const auto row = static_cast<uint32_t>(hand_++);
    const uint32_t touched = records.At(row).touched();
    rows_.push_back({(now - touched) & kTouchedMask, row, touched});
  }
  std::ranges::sort(rows_, [](const Row& a, const Row& b) {
    return a.age != b.age ? a.age < b.age : a.row > b.row;
  });
  const size_t kept = std::max<size_t>(rows_.size() / kShare, 1);
  rows_.erase(rows_.begin(), rows_.end() - static_cast<int64_t>(kept));
}

}  // namespace paracord
