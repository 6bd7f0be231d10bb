#include "store/undo_log.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"

namespace paracord {
namespace {

// An entry: the address of the next entry in its list, the row's number, the row's record.
constexpr uint64_t kRowAt = sizeof(char*);
constexpr uint64_t kRecordAt = kRowAt + sizeof(uint32_t);

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSegmentBytesMax = uint64_t{256} << 10;
constexpr uint64_t kSegmentsOfShare = 256;  // segments in a small share
constexpr uint64_t kSegmentsOfTable = 64;
constexpr uint64_t kAheadBytes = uint64_t{16} << 20;  // mapped ahead for writers
// Only while less than this part of the share is held.
constexpr uint64_t kAheadShare = 4;

uint64_t RoundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

uint64_t SegmentBytes(uint64_t entry_bytes, uint64_t rows, const MemoryShare* share) {
  uint64_t bytes = std::min(kSegmentBytesMax, rows * entry_bytes / kSegmentsOfTable);
  if (share != nullptr) bytes = std::min(bytes, share->bytes_max() / kSegmentsOfShare);
  return RoundUp(std::max(bytes, entry_bytes), kPage);
}

// ThreadSanitizer does not know fences; it does not see the copy that they order, either.
inline void MemoryFence([[maybe_unused]] std::memory_order order) {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(order);
#endif
}

using Word [[gnu::may_alias]] = uint32_t;

// Copies words that other threads may be writing: a race by the letter of the standard. The copy is
// right nevertheless once the old records are put over it:
//   a writer  publishes the old record (a release), fence (release), writes the row;
//   a reader  copies the row, fence (acquire), reads the list of old records (acquire).
// If the copy has a new byte of a row, the reader's fence comes after the writer's, and the list
// has the row's old record, which replaces the whole row. If the copy has no new byte, it equals
// the old record, and an old record put over it changes nothing. A log that ends is ordered alike:
// its ending is stored before the writer's fence. Volatile words are read once each, and keep the
// compiler from calling memcpy, which ThreadSanitizer would watch.
__attribute__((noinline, no_sanitize("thread"))) void CopyWhileWritten(const float* from,
                                                                       uint64_t words, float* to) {
  const volatile Word* const in = reinterpret_cast<const volatile Word*>(from);
  Word* const out = reinterpret_cast<Word*>(to);
  for (uint64_t i = 0; i < words; ++i) out[i] = in[i];
}

}  // namespace

UndoLog::UndoLog(const RowMemory& memory, uint64_t rows_max, MemoryShare* share)
    : memory_(memory),
      rows_max_(rows_max),
      shift_(memory.group_shift()),
      entry_bytes_(RoundUp(kRecordAt + memory.row_floats() * sizeof(float), sizeof(char*))),
      segment_bytes_(SegmentBytes(entry_bytes_, rows_max, share)),
      entries_(segment_bytes_ / entry_bytes_),
      groups_of_band_((rows_max >> shift_) / kBands + 1),
      share_(share),
      preserved_(std::make_unique<std::atomic<uint64_t>[]>(rows_max / 64 + 1)),
      lists_(std::make_unique<std::atomic<char*>[]>((rows_max >> shift_) + 1)) {
  const uint64_t group_bytes = (memory.row_floats() * sizeof(float)) << shift_;
  {
    MutexLock lock(mu_);
    const bool reserved =
        Reserve(rows_max / 8 + ((rows_max >> shift_) + 1) * sizeof(char*) + group_bytes);
    if (!reserved) ending_ = kFull;
  }
  while (ending_ == kOpen && MakeAhead()) continue;
}

UndoLog::~UndoLog() {
  for (const auto& segment : segments_) munmap(segment->memory, segment_bytes_);
  if (share_ != nullptr) share_->Subtract(reserved_);
}

bool UndoLog::Reserve(uint64_t bytes) {
  if (share_ != nullptr && !share_->Reserve(bytes)) return false;
  reserved_ += bytes;
  return true;
}

char* UndoLog::Map() const {
  // All pages at once take a fraction of as many faults.
  void* const memory = mmap(nullptr, segment_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

UndoLog::Segment* UndoLog::AddSegment(char* memory) {
  if (memory == nullptr) return nullptr;  // the reserved bytes stay reserved until the log ends
  segments_.push_back(std::make_unique<Segment>());
  segments_.back()->memory = memory;
  return segments_.back().get();
}

UndoLog::Segment* UndoLog::TakeSegment() {
  if (free_.empty()) return Reserve(segment_bytes_) ? AddSegment(Map()) : nullptr;
  Segment* const segment = free_.back();
  free_.pop_back();
  return segment;
}

char* UndoLog::Room(Band& band) {
  while (true) {
    Segment* const segment = band.filling.load(std::memory_order_acquire);
    if (segment != nullptr) {
      const uint32_t place = segment->used.fetch_add(1, std::memory_order_relaxed);
      if (place < entries_) return segment->memory + place * entry_bytes_;
    }
    MutexLock lock(mu_);
    if (band.filling.load(std::memory_order_relaxed) != segment) continue;
    Segment* const fresh = TakeSegment();
    if (fresh == nullptr) return nullptr;
    band.segments.push_back(fresh);
    band.filling.store(fresh, std::memory_order_release);
  }
}

bool UndoLog::Needs(uint32_t row) const {
  const uint64_t bit = uint64_t{1} << (row % 64);
  return row >= first_unread() && row < rows_ &&
         (preserved_[row / 64].load(std::memory_order_relaxed) & bit) == 0;
}

void UndoLog::Preserve(uint32_t row) {
  std::atomic<uint64_t>& preserved = preserved_[row / 64];
  const uint64_t bit = uint64_t{1} << (row % 64);
  if ((preserved.load(std::memory_order_relaxed) & bit) != 0) return;
  if (ending_.load(std::memory_order_relaxed) != kOpen) return;
  const uint64_t group = row >> shift_;
  char* const entry = Room(bands_[group / groups_of_band_]);
  if (entry == nullptr) return End(kFull);
  std::memcpy(entry + kRowAt, &row, sizeof row);
  std::memcpy(entry + kRecordAt, memory_.Row(row), memory_.row_floats() * sizeof(float));
  std::atomic<char*>& list = lists_[group];
  char* next = list.load(std::memory_order_relaxed);
  do {
    std::memcpy(entry, &next, sizeof next);
  } while (!list.compare_exchange_weak(next, entry, std::memory_order_release,
                                       std::memory_order_relaxed));
  preserved.fetch_or(bit, std::memory_order_relaxed);
  MemoryFence(std::memory_order_release);
}

void UndoLog::End(Ending why) {
  Ending open = kOpen;
  ending_.compare_exchange_strong(open, why, std::memory_order_release, std::memory_order_relaxed);
  MemoryFence(std::memory_order_release);
}

bool UndoLog::HasRoomFor(uint64_t rows) {
  if (ending_.load(std::memory_order_relaxed) != kOpen || share_ == nullptr) return true;
  const uint64_t unread = rows_ - std::min(rows_, first_unread());
  if (unread == 0 || rows == 0) return true;
  MutexLock lock(mu_);
  const auto held = static_cast<uint64_t>(std::max<int64_t>(share_->bytes(), 0));
  const uint64_t left = share_->bytes_max() - std::min(share_->bytes_max(), held);
  // Each band may begin a segment and leave the end of another empty.
  const uint64_t segments = (std::min(rows, unread) + entries_ - 1) / entries_ + kBands - recycled_;
  return free_.size() + left / segment_bytes_ >= segments;
}

absl::Status UndoLog::Read(uint64_t group, uint64_t first, uint64_t count,
                           std::vector<float>& words, const uint64_t* wanted) const {
  const uint64_t begin = group << shift_, width = memory_.row_floats();
  const uint64_t rows = std::min(uint64_t{1} << shift_, rows_ - begin);
  const float* const from = memory_.Row(static_cast<uint32_t>(begin)) + first;
  words.resize(rows * count);
  if (count == width && wanted == nullptr) {
    CopyWhileWritten(from, words.size(), words.data());
  } else {
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t row = begin + r;
      if (wanted != nullptr && (wanted[row / 64] >> (row % 64) & 1) == 0) continue;
      CopyWhileWritten(from + r * width, count, words.data() + r * count);
    }
  }
  MemoryFence(std::memory_order_acquire);
  const char* entry = lists_[group].load(std::memory_order_acquire);
  while (entry != nullptr) {
    uint32_t row = 0;
    std::memcpy(&row, entry + kRowAt, sizeof row);
    std::memcpy(&words[(row - begin) * count], entry + kRecordAt + first * sizeof(float),
                count * sizeof(float));
    const char* next = nullptr;
    std::memcpy(&next, entry, sizeof next);
    entry = next;
  }
  switch (ending_.load(std::memory_order_acquire)) {
    case kReplaced:
      return absl::AbortedError("a newer snapshot has taken the place of this one");
    case kFull:
      return absl::ResourceExhaustedError(absl::StrCat(
          "rows changed faster than they were written, and what they were before takes more than "
          "the share \"snapshots\" of --memory-limit, which is ",
          HumanBytes(share_ != nullptr ? share_->bytes_max() : MemoryShare::kUnlimited),
          ": give this ps more memory, the job more ps, or DIR a faster disk"));
    case kOpen:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

bool UndoLog::MakeAhead() {
  {
    MutexLock lock(mu_);
    // At most what the remaining rows could fill, and little while others lack memory.
    const uint64_t unread = rows_max_ - std::min(rows_max_, first_unread());
    const uint64_t most = std::min(kAheadBytes, unread * entry_bytes_ / 8);
    if ((free_.size() + 1) * segment_bytes_ > most) return false;
    if (share_ != nullptr &&
        share_->bytes() >= static_cast<int64_t>(share_->bytes_max() / kAheadShare)) {
      return false;
    }
    if (!Reserve(segment_bytes_)) return false;
  }
  char* const memory = Map();
  MutexLock lock(mu_);
  Segment* const segment = AddSegment(memory);
  if (segment != nullptr) free_.push_back(segment);
  return segment != nullptr;
}

bool UndoLog::Pass(uint64_t group) {
  first_unread_.store((group + 1) << shift_, std::memory_order_release);
  MakeAhead();
  return (group + 1) % groups_of_band_ == 0 &&
         bands_[group / groups_of_band_].filling.load(std::memory_order_relaxed) != nullptr;
}

void UndoLog::Recycle() {
  MutexLock lock(mu_);
  const uint64_t passed = (first_unread() >> shift_) / groups_of_band_;
  for (; recycled_ < std::min(passed, kBands); ++recycled_) {
    Band& band = bands_[recycled_];
    for (Segment* const segment : band.segments) {
      segment->used.store(0, std::memory_order_relaxed);
      free_.push_back(segment);
    }
    band.segments.clear();
    band.filling.store(nullptr, std::memory_order_relaxed);
  }
}

}  // namespace paracord
