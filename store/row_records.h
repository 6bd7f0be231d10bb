// The rows of a growing table in memory, each with what the table has to know of it: its id, the
// batch that touched it last, and if asked for how often it was updated. 12 or 16 bytes, then the
// values and slots. Rows that are removed are used again. As RowMemory, one thread at a time, but
// that different rows may be read and written by many.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
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

  // A view of one row, in memory or in the words of an image.
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
  uint64_t bytes() const { return memory_.bytes() + free_.capacity() * sizeof(uint32_t); }
  // Asks for the memory of a row's first elements.
  void Prefetch(uint32_t row, uint64_t elements) const;

  // A row whose memory is uninitialised.
  uint32_t Add();
  void Remove(uint32_t row);

  RowMemory& memory() { return memory_; }
  const RowMemory& memory() const { return memory_; }
  uint64_t record_words() const { return memory_.row_floats(); }
  // Keeps of the words of some rows those of the live rows that were touched fewer than `ages`
  // batches before `now`.
  void KeepLive(std::vector<float>& words, uint32_t now, uint64_t ages) const;
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

// Says which row was not touched for longest; rows that one batch touched last are ordered by a
// hash of their ids. So the answer depends on what a checkpoint has of the rows and on nothing
// else: neither on their places in memory nor on when somebody asked. A look through all rows finds
// some of the oldest, which are then handed out one by one: the others are younger, and only get
// younger.
class OldestRows {
 public:
  // `key` orders the rows of one batch.
  explicit OldestRows(uint64_t key) : key_(key) {}

  // Returns the oldest row of `records`, or nullopt if none is live. `now` is a batch, modulo 2^31,
  // and no row was touched by a later one.
  std::optional<uint32_t> Find(const RowRecords& records, uint32_t now);
  // To be called for each row that comes into being, at batch `now`.
  void Added(const RowRecords& records, uint32_t row, uint32_t now);
  // How many rows were touched more than `ages` batches before `now`, of those found and not handed
  // out yet.
  uint64_t CountOlder(const RowRecords& records, uint32_t now, uint64_t ages) const;

 private:
  struct Row {
    uint64_t hash = 0;  // of its id
    uint32_t touched = 0;
    uint32_t row = 0;
  };
  // Orders rows with the oldest first.
  bool Before(const Row& a, const Row& b) const;
  Row RowAt(const RowRecords& records, uint32_t row) const;
  bool IsAsFound(const RowRecords& records, const Row& row) const;
  void Look(const RowRecords& records, uint32_t now);
  void KeepOldest(size_t most);

  const uint64_t key_;
  uint32_t looked_ = 0;     // the batch of the last look
  std::vector<Row> rows_;   // a heap whose top is the oldest
  std::optional<Row> end_;  // where the look found more rows: none of the others is before this one
};

}  // namespace paracord
