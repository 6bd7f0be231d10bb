#include "store/pinned_bytes.h"

#include <algorithm>

#include "common/shared_memory.h"

namespace paracord {
namespace {

// The bits of Chunk::pulls: stale, and a count of pulls. The operation that makes both nonzero adds
// the chunk's bytes, and the one that clears either subtracts the bytes. Each operation is atomic,
// so the bytes count exactly once in any order.
constexpr uint32_t kStale = 1;
constexpr uint32_t kPull = 2;

uint64_t Bytes(const ChunkRef& chunk) { return chunk.values().size_bytes(); }

}  // namespace

PinnedBytes::PinnedBytes(uint64_t bytes_max)
    : PinnedBytes(std::make_shared<MemoryShare>(bytes_max)) {}

uint64_t PinnedBytes::bytes() const { return static_cast<uint64_t>(Pinned()); }

bool PinnedBytes::FitsBeside(int64_t pinned, uint64_t bytes) const {
  const int64_t limit = Limit();
  if (bytes == 0) return pinned <= limit;
  if (pinned == 0) return bytes <= reserved_max();
  return pinned <= limit && bytes <= static_cast<uint64_t>(limit - pinned);
}

bool PinnedBytes::Reserve(uint64_t bytes) {
  if (bytes > reserved_max()) return false;
  Add(bytes);
  if (FitsBeside(std::max<int64_t>(share_->bytes() - static_cast<int64_t>(bytes), 0), bytes)) {
    return true;
  }
  Subtract(bytes);
  return false;
}

bool PinnedBytes::Wait(uint64_t bytes) {
  wanted_ = bytes;
  waits_ = true;
  return !Fits(bytes);
}

void PinnedBytes::Watch(std::function<void()> fell) {
  MutexLock lock(mu_);
  fell_.swap(fell);
}

void PinnedBytes::RaiseLimit() {
  MutexLock lock(mu_);
  raised_by_ = std::min(Pinned(), static_cast<int64_t>(share_->spare()));
}

void PinnedBytes::Replaced(const ChunkRef& chunk) {
  const uint32_t before = chunk.pulls().fetch_or(kStale);
  if (before >= kPull && (before & kStale) == 0) Add(Bytes(chunk));
}

// Subtracts the bytes, then reads waits_; Wait sets waits_, then reads the bytes: at least one of
// the two sees the other.
void PinnedBytes::Subtract(uint64_t bytes) {
  share_->Subtract(bytes);
  if (!waits_ && raised_by_ == 0) return;
  MutexLock lock(mu_);
  raised_by_ = std::min<int64_t>(raised_by_, Pinned());
  if (Fits(wanted_) && waits_.exchange(false) && fell_) fell_();
}

PulledChunk::PulledChunk(ChunkRef chunk, std::shared_ptr<PinnedBytes> pinned)
    : chunk_(std::move(chunk)), pinned_(std::move(pinned)) {
  if (chunk_.pulls().fetch_add(kPull) == kStale) pinned_->Add(Bytes(chunk_));
}

PulledChunk::~PulledChunk() {
  if (pinned_ == nullptr) return;
  if (chunk_.pulls().fetch_sub(kPull) == kStale + kPull) pinned_->Subtract(Bytes(chunk_));
}

PinnedReservation::~PinnedReservation() {
  if (pinned_ != nullptr && bytes_ > 0) pinned_->Subtract(bytes_);
}

void PinnedReservation::Suspend() {
  suspended_ = std::exchange(bytes_, 0);
  if (suspended_ > 0) pinned_->Subtract(suspended_);
}

bool PinnedReservation::Renew() {
  if (pinned_ != nullptr && !pinned_->Reserve(suspended_)) return false;
  bytes_ = std::exchange(suspended_, 0);
  return true;
}

bool PinnedReservation::Take(uint64_t bytes) {
  if (bytes > bytes_) return false;
  bytes_ -= bytes;
  return true;
}

PulledCopy::PulledCopy(uint64_t bytes, std::shared_ptr<PinnedBytes> pinned,
                       PinnedReservation* reserved)
    : bytes_(bytes), pinned_(std::move(pinned)) {
  if (reserved == nullptr || !reserved->Take(bytes)) pinned_->Add(bytes_);
  data_ = static_cast<char*>(AllocateShared(bytes));
}

PulledCopy::~PulledCopy() {
  if (pinned_ == nullptr) return;
  FreeShared(data_, bytes_);
  pinned_->Subtract(bytes_);
}

}  // namespace paracord
