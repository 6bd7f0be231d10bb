// The rows of a growing table in memory: 12 or 16 bytes with the id, the last update that touched
// the row, and on request the count of updates; then values and slots. The memory of removed rows
// is used again. As in RowMemory, one thread at a time adds and removes rows, but many may use
// different rows.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "store/row_memory.h"

namespace paracord {

// Updates are numbered modulo 2^31, also the last that touched a row.
inline constexpr uint32_t kTouchedMask = (uint32_t{1} << 31) - 1;

class RowRecords {
 public:
  // A row has `elements` numbers: values and slots together.
  RowRecords(uint64_t elements, bool counts_steps)
      : header_(counts_steps ? kStepsAt + 1 : kStepsAt), memory_(header_ + elements) {}

  // A view of one row, in memory or in the words of an image.
  class Record {
   public:
    Record(float* at, uint64_t header) : at_(at), header_(header) {}
    uint64_t id() const { return Load<uint64_t>(0); }
    bool live() const { return (mark() & kLive) != 0; }         // not removed
    uint32_t touched() const { return mark() & kTouchedMask; }  // last update that touched it
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
    // Header fields are bytes among floats, and not aligned.
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
  uint64_t rows() const { return memory_.rows(); }  // with removed rows
  uint64_t elements() const { return memory_.row_floats() - header_; }
  uint64_t bytes() const { return memory_.bytes() + free_.capacity() * sizeof(uint32_t); }
  // Prefetches the header and the first `elements` numbers of a row, to be written.
  void Prefetch(uint32_t row, uint64_t elements) const;

  // Adds a row, whose memory is not initialised, and returns its number.
  uint32_t Add();
  void Remove(uint32_t row);

  RowMemory& memory() { return memory_; }
  const RowMemory& memory() const { return memory_; }
  uint64_t record_words() const { return memory_.row_floats(); }
  // Keeps, of the rows in `words`, only live ones that were touched less than `ages` updates before
  // `now`.
  void KeepLive(std::vector<float>& words, uint32_t now, uint64_t ages) const;
  // Sets a row to `words`, those of one row in an image.
  void Assign(uint32_t row, std::span<const float> words) const {
    std::memcpy(memory_.Row(row), words.data(), words.size_bytes());
  }
  Record InWords(std::span<float> words) const { return {words.data(), header_}; }

 private:
  static constexpr uint64_t kMarkAt = 2;  // in words from the start of a row
  static constexpr uint64_t kStepsAt = 3;
  static constexpr uint32_t kLive = kTouchedMask + 1;

  const uint64_t header_;  // words of a row before its values
  RowMemory memory_;
  std::vector<uint32_t> free_;  // removed rows, to be used again
};

// Finds the row untouched for longest; rows last touched by the same update are ordered by a hash
// of their ids. The order depends only on what a checkpoint has of the rows, not on memory places
// or when Find is called. A search of all rows collects some of the oldest, which Find then returns
// one by one: all other rows are younger, and stay so.
class OldestRows {
 public:
  // `key` seeds the hash.
  explicit OldestRows(uint64_t key) : key_(key) {}

  // Returns the oldest row of `records`, or nullopt if none is live. Returns the same row again
  // until it is removed or touched. `now` is the number of the last update.
  std::optional<uint32_t> Find(const RowRecords& records, uint32_t now);
  // To be called for each row that the update `now` adds after the first Find.
  void Added(const RowRecords& records, uint32_t row, uint32_t now);
  // Of the rows that the last search found and that have not changed since, returns how many were
  // touched more than `ages` updates before `now`.
  uint64_t CountOlder(const RowRecords& records, uint32_t now, uint64_t ages) const;

 private:
  struct Row {
    uint64_t hash = 0;  // hash of the id
    uint32_t touched = 0;
    uint32_t row = 0;
  };
  // Whether `a` is older than `b`.
  bool Before(const Row& a, const Row& b) const;
  Row RowAt(const RowRecords& records, uint32_t row) const;
  bool IsAsFound(const RowRecords& records, const Row& row) const;
  void Look(const RowRecords& records, uint32_t now);
  void KeepOldest(size_t most);

  const uint64_t key_;
  uint32_t looked_ = 0;     // last update before the last search
  std::vector<Row> rows_;   // the rows found, as a heap with the oldest on top
  std::optional<Row> end_;  // set if the search left rows out, all younger than this
};

}  // namespace paracord
