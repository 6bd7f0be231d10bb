// The old records of rows that change while an image of a table (its rows at one moment, for a
// checkpoint) is read. The image's thread copies the table's memory without a lock, group of rows
// by group (store/row_memory.h), and then writes the old records over the copy: the image has every
// row as of its beginning.
//
// Writers call BeforeWrite before they change a row. A writer is the thread that holds the
// partition's lock, or a thread that works for the lock's holder, and no two writers change the
// same row. One thread reads the image. Memory for old records is reserved in a share before it is
// taken, and used again once all rows of a band of groups have been read. If memory runs out, the
// image ends, and writers go on.
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
  // Makes a log for an image of at most `rows_max` rows of `memory`. `memory` and `share` must
  // outlive the log. `share` counts the log's memory; null: not counted. If the share has no room
  // for the log, the image ends before it begins. Slow: better not called under a lock.
  UndoLog(const RowMemory& memory, uint64_t rows_max, MemoryShare* share);
  ~UndoLog();
  UndoLog(const UndoLog&) = delete;
  UndoLog& operator=(const UndoLog&) = delete;

  uint64_t rows_max() const { return rows_max_; }
  // Begins the image of the rows that there are now. Called under the partition's lock.
  void Begin() { rows_ = memory_.rows(); }

  // ---- For writers.

  // The first row not read yet. A writer asks once for many rows: if rows are read meanwhile, the
  // writer only makes needless entries.
  uint64_t first_unread() const { return first_unread_.load(std::memory_order_acquire); }
  // Preserves the row's record if the image needs it. Then the caller may change the row.
  void BeforeWrite(uint32_t row, uint64_t first_unread) {
    if (row >= first_unread && row < rows_) Preserve(row);
  }
  // Whether the row is one of the image, not read and not preserved yet.
  bool Needs(uint32_t row) const;
  // Estimates whether there is memory for `rows` more records. True if the image has ended.
  bool HasRoomFor(uint64_t rows);
  // End the image: another has replaced it, or memory has run out. Under the partition's lock.
  void EndReplaced() { End(kReplaced); }
  void EndFull() { End(kFull); }

  // ---- For the thread that reads the image.

  uint64_t groups() const { return (rows_ + (uint64_t{1} << shift_) - 1) >> shift_; }
  // Copies `count` words of each row of a group, from word `first` of the row on, as they were when
  // the image began. `wanted` has a bit for each row of the table; null: all are wanted. The words
  // of unwanted rows may be anything. ABORTED: another image has replaced this one.
  // RESOURCE_EXHAUSTED: there was no memory for old records.
  absl::Status Read(uint64_t group, uint64_t first, uint64_t count, std::vector<float>& words,
                    const uint64_t* wanted = nullptr) const;
  absl::Status Read(uint64_t group, std::vector<float>& words) const {
    return Read(group, 0, memory_.row_floats(), words);
  }
  // Marks a group as read; called for each in turn. Returns true if Recycle would free memory.
  bool Pass(uint64_t group);
  // Lets the records of bands that have been read be written over. Called under the partition's
  // lock, so that no writer still uses an older first_unread.
  void Recycle();

 private:
  static constexpr uint64_t kBands = 16;
  enum Ending : int { kOpen, kReplaced, kFull };

  // A piece of memory for entries (old records). A writer counts `used` up; the count before is the
  // number of the writer's entry, or if the segment is full, the writer takes another segment.
  struct Segment {
    char* memory = nullptr;
    std::atomic<uint32_t> used{0};
  };
  // A sixteenth of the groups, next to each other, whose entries share segments.
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
  // Maps a segment before writers need it, so that they need not wait for page faults. Returns
  // false if enough segments are ready or memory is short.
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
  const std::unique_ptr<std::atomic<char*>[]> lists_;         // the newest entry of each group
  std::array<Band, kBands> bands_;
  std::atomic<uint64_t> first_unread_{0};
  std::atomic<Ending> ending_{kOpen};

  Mutex mu_;
  uint64_t reserved_ ABSL_GUARDED_BY(mu_) = 0;  // bytes
  std::vector<std::unique_ptr<Segment>> segments_ ABSL_GUARDED_BY(mu_);
  std::vector<Segment*> free_ ABSL_GUARDED_BY(mu_);
  uint64_t recycled_ ABSL_GUARDED_BY(mu_) = 0;  // bands whose segments are free again
};

}  // namespace paracord
