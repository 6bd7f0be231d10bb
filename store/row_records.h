// The rows of a growing table in memory, each with what the table has to know of it: its id, the
// batch that touched it last, and if asked for how often it was updated. 12 or 16 bytes, then the
// values and slots. Rows that are removed are used again. As RowMemory, one thread at a time, but
// that different rows may be read and written by many.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "store/row_memory.h"

namespace paracord {

// When a row was touched: a batch, modulo 2^31.
inline constexpr uint32_t kTouchedMask = (uint32_t{1} << 31) - 1;

class RowRecords {
 public:
  // A row has `elements` values and slots in all.
  RowRecords(uint64_t elements, bool counts_steps)
      : header_(counts_steps ? kStepsAt + 1 : kStepsAt), memory_(header_ + elements) {}

  // A view of one row, in memory or in an image.
  class Record {
   public:
    Record(float* at, uint64_t header) : at_(at), header_(header) {}
    uint64_t id() const { return Load<uint64_t>(0); }
    bool live() const { return (mark() & kLive) != 0; }
    uint32_t touched() const { return mark() & kTouchedMask; }
    uint32_t steps() const { return counts_steps() ? Load<uint32_t>(kStepsAt) : 0; }
    float* values() const { return at_ + header_; }
    bool counts_steps() const { return header_ > kStepsAt; }
    void Begin(uint64_t id, uint32_t touched, uint32_t steps) const {
      Put(id, 0);
      Touch(touched);
      SetSteps(steps);
    }
    void Touch(uint32_t touched) const { Put(touched | kLive, kMarkAt); }
    void SetSteps(uint32_t steps) const {
      if (counts_steps()) Put(steps, kStepsAt);
    }
    void End() const { Put(uint32_t{0}, kMarkAt); }

   private:
    // They are bytes among floats, and not aligned.
    template <class T>
    T Load(uint64_t at) const {
      T value;
      std::memcpy(&value, at_ + at, sizeof value);
      return value;
    }
    template <class T>
    void Put(T value, uint64_t at) const {
      std::memcpy(at_ + at, &value, sizeof value);
    }
    uint32_t mark() const { return Load<uint32_t>(kMarkAt); }

    float* at_;
    uint64_t header_;
  };

  Record At(uint32_t row) const { return {memory_.Row(row), header_}; }
  uint64_t rows() const { return memory_.rows(); }  // those that were removed, too
  uint64_t elements() const { return memory_.row_floats() - header_; }
  uint64_t bytes() const {
    return memory_.bytes() + memory_.saved_bytes() + free_.capacity() * sizeof(uint32_t);
  }
  // Asks for the memory of a row's first elements.
  void Prefetch(uint32_t row, uint64_t elements) const;

  // A row whose memory is uninitialised.
  uint32_t Add();
  void Remove(uint32_t row);

  // Images, as RowMemory has them.
  RowMemory& memory() { return memory_; }
  std::vector<Record> RecordsOf(std::span<float> part) const;
  uint64_t record_words() const { return memory_.row_floats(); }
  // Leaves the words of the live rows alone in a part, of those that were touched fewer than `ages`
  // batches before `now`.
  void KeepLive(std::vector<float>& part, uint32_t now, uint64_t ages) const;
  // Sets a row to words as an image has them.
  void Assign(uint32_t row, std::span<const float> words) const {
    std::memcpy(memory_.Row(row), words.data(), words.size_bytes());
  }
  Record InWords(std::span<float> words) const { return {words.data(), header_}; }

 private:
  static constexpr uint64_t kMarkAt = 2;  // in words
  static constexpr uint64_t kStepsAt = 3;
  static constexpr uint32_t kLive = kTouchedMask + 1;

  const uint64_t header_;  // words before a row's values
  RowMemory memory_;
  std::vector<uint32_t> free_;  // rows that may be used again
};

// Finds rows that were not touched for long, among some hundred that it looks at.
class OldestRows {
 public:
  // One of `records`, all of which are live. `now` is a batch, modulo 2^31.
  uint32_t Take(const RowRecords& records, uint32_t now);

 private:
  struct Row {
    uint32_t age = 0;
    uint32_t row = 0;
    uint32_t touched = 0;
  };
  void Find(const RowRecords& records, uint32_t now);

  uint64_t hand_ = 0;      // the next row that is looked at
  std::vector<Row> rows_;  // the oldest last
};

}  // namespace paracord
