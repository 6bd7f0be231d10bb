// The old records of rows that change while an image of a table (its rows at one moment, for a
// checkpoint) is read. The image's thread copies rows from the table's memory without a lock, group
// by group (store/row_memory.h), and then puts the old records over the copy, so that the image has
// every row as of its begin.
//
// Writers call BeforeWrite before they change a row, under the partition's lock or on behalf of its
// holder, each on its own rows. One thread reads the image. Memory of old records is reserved in a
// share before it is taken, and reused once the rows have been read. Without more memory the image
// ends, and writers go on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/memory_budget.h"
#include "common/mutex.h"
#include "store/row_memory.h"

namespace paracord {

class UndoLog {
 public:
  // Makes a log for an image of at most `rows_max` rows of `memory`, which must outlive the log.
  // `share` counts the log's memory; null: not counted. A full share ends the image at once. Slow:
  // not to be called under a lock.
  UndoLog(const RowMemory& memory, uint64_t rows_max, MemoryShare* share);
  ~UndoLog();
  UndoLog(const UndoLog&) = delete;
  UndoLog& operator=(const UndoLog&) = delete;

  uint64_t rows_max() const { return rows_max_; }
  // Begins the image of the rows that there are now. Under the partition's lock.
  void Begin() { rows_ = memory_.rows(); }

  // ---- For writers.

  // The first row not read yet. A writer asks once for many rows: a stale answer costs only
  // needless entries.
  uint64_t first_unread() const { return first_unread_.load(std::memory_order_acquire); }
  // Preserves the row's record if the image needs it. Then the caller may change the row.
  void BeforeWrite(uint32_t row, uint64_t first_unread) {
    if (row >= first_unread && row < rows_) Preserve(row);
  }
  // Whether BeforeWrite would preserve the row.
  bool Needs(uint32_t row) const;
  // Whether there is memory for `rows` more records, wherever they lie, or the image has ended.
  bool HasRoomFor(uint64_t rows);
  // End the image: another has replaced it, or memory has run out. Under the partition's lock.
  void EndReplaced() { End(kReplaced); }
  void EndFull() { End(kFull); }

  // ---- For the thread that reads the image.

  uint64_t groups() const { return (rows_ + (uint64_t{1} << shift_) - 1) >> shift_; }
  // Copies `count` words of each row of a group, from the word `first` on, as they were when the
  // image began. Of rows whose bits are not set in `wanted` the words may be anything; null: all
  // are wanted. ABORTED: another image has replaced this one. RESOURCE_EXHAUSTED: the share was
  // full.
  absl::Status Read(uint64_t group, uint64_t first, uint64_t count, std::vector<float>& words,
                    const uint64_t* wanted = nullptr) const;
  absl::Status Read(uint64_t group, std::vector<float>& words) const {
    return Read(group, 0, memory_.row_floats(), words);
  }
  // Marks a group as read; called for each in turn. Returns true if Recycle would free memory.
  bool Pass(uint64_t group);
  // Reuses the records of groups marked as read. Under the partition's lock, so that no writer
  // still uses an older first_unread.
  void Recycle();

 private:
  static constexpr uint64_t kBands = 16;
  enum Ending : int { kOpen, kReplaced, kFull };

  // A piece of memory for entries (old records). Writers count `used` up, and whoever gets a place
  // beyond the end takes another segment.
  struct Segment {
    char* memory = nullptr;
    std::atomic<uint32_t> used{0};
  };
  // Neighbouring groups, whose entries share segments.
  struct Band {
    std::atomic<Segment*> filling{nullptr};
    std::vector<Segment*> segments{};  // guarded by mu_
  };

  void Preserve(uint32_t row);
  void End(Ending why);
  // Returns memory for an entry of a band, or null if there is none.
  char* Room(Band& band);
  Segment* TakeSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Segment* AddSegment(char* memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  char* Map() const;
  // Maps a segment ahead, so that writers need not wait for page faults. Returns false if enough
  // are ready or memory is short.
  bool MakeAhead();
  bool Reserve(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RowMemory& memory_;
  const uint64_t rows_max_;
  const uint32_t shift_;  // a group has 1 << shift_ rows
  const uint64_t entry_bytes_, segment_bytes_;
  const uint64_t entries_;  // per segment
  const uint64_t groups_of_band_;
  MemoryShare* const share_;
  uint64_t rows_ = 0;  // set by Begin, before other threads know the log
  const std::unique_ptr<std::atomic<uint64_t>[]> preserved_;  // one bit a row
  const std::unique_ptr<std::atomic<char*>[]> lists_;         // the entries of each group
  std::array<Band, kBands> bands_;
  std::atomic<uint64_t> first_unread_{0};
  std::atomic<Ending> ending_{kOpen};

  Mutex mu_;
  uint64_t reserved_ ABSL_GUARDED_BY(mu_) = 0;  // bytes
  std::vector<std::unique_ptr<Segment>> segments_ ABSL_GUARDED_BY(mu_);
  std::vector<Segment*> free_ ABSL_GUARDED_BY(mu_);
  uint64_t recycled_ ABSL_GUARDED_BY(mu_) = 0;  // bands
};

}  // namespace paracord
