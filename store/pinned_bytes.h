// Counts the bytes that a ps holds beyond its contents because receivers have not read their
// replies yet (pinned bytes), for back-pressure. A chunk (store/block.h) counts while a pull
// references it and its block has replaced it (a stale chunk). A copy, of rows or in another
// encoding, counts while a pull references it; bytes for copies of rows are reserved before. Chunks
// referenced by snapshots do not count: training never waits for a snapshot of dense partitions.
// This class only counts and notifies. The ParameterServer, which parks exchanges (server/parked.h)
// until there is room, shares it with partitions and replies, since replies may outlive both.
// Thread-safe; the usual path takes no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/memory_budget.h"
#include "common/mutex.h"
#include "store/block.h"

namespace paracord {

class PinnedBytes {
 public:
  static constexpr uint64_t kUnlimited = MemoryShare::kUnlimited;

  explicit PinnedBytes(uint64_t bytes_max = kUnlimited);
  // The pinned bytes count in `share`, which has the limit.
  explicit PinnedBytes(std::shared_ptr<MemoryShare> share) : share_(std::move(share)) {}

  // The bytes pinned now.
  uint64_t bytes() const;
  // The limit, without what RaiseLimit has added to it.
  uint64_t bytes_max() const { return share_->bytes_max(); }
  // Whether more bytes are pinned than the limit, with what RaiseLimit has added, allows.
  bool OverLimit() const { return share_->bytes() > Limit(); }

  // The most bytes that one call of Reserve can reserve.
  uint64_t reserved_max() const { return share_->bytes_max() + share_->spare(); }
  // Whether `bytes` more are within the limit. While nothing is pinned, up to reserved_max() are; 0
  // bytes are within it unless OverLimit().
  bool Fits(uint64_t bytes) const { return FitsBeside(Pinned(), bytes); }
  // Counts `bytes` more if they fit; otherwise returns false and counts nothing.
  bool Reserve(uint64_t bytes);

  // Called before an exchange that needs `bytes` more is parked. True: the bytes do not fit, and
  // the function set by Watch runs once when they do. False: the bytes fit; the function may run
  // nevertheless.
  bool Wait(uint64_t bytes);

  // Sets the function that runs when the bytes of the last Wait fit. It runs on any thread that
  // releases bytes, perhaps one of gRPC's, and should only post to a loop. After Watch returns, the
  // function set before no longer runs.
  void Watch(std::function<void()> fell);

  // Called when receivers do not read their replies in time: raises the limit by as many bytes as
  // are pinned (at most by the share's spare bytes), and lowers it again as these bytes are
  // released. So exchanges go on meanwhile, limited by the bytes that they pin themselves.
  void RaiseLimit();

  // Called by a partition, under its lock or when it is destroyed, when `chunk` leaves its block.
  void Replaced(const ChunkRef& chunk);

 private:
  friend class PulledChunk;
  friend class PulledCopy;
  friend class PinnedReservation;
  bool FitsBeside(int64_t pinned, uint64_t bytes) const;
  void Add(uint64_t bytes) { share_->Add(bytes); }
  void Subtract(uint64_t bytes);
  int64_t Limit() const { return static_cast<int64_t>(share_->bytes_max()) + raised_by_; }
  // The share may count below 0 for a moment, if a chunk is released while it is replaced.
  int64_t Pinned() const { return std::max<int64_t>(share_->bytes(), 0); }

  const std::shared_ptr<MemoryShare> share_;  // thread-safe itself
  std::atomic<int64_t> raised_by_{0};         // written under mu_

  std::atomic<bool> waits_{false};
  std::atomic<uint64_t> wanted_{0};  // the bytes of the last Wait
  Mutex mu_;
  std::function<void()> fell_ ABSL_GUARDED_BY(mu_);
};

// A pull's reference to a chunk. The chunk counts as pinned while it is also stale.
class PulledChunk {
 public:
  PulledChunk(ChunkRef chunk, std::shared_ptr<PinnedBytes> pinned);
  PulledChunk(PulledChunk&& other) noexcept = default;
  PulledChunk& operator=(PulledChunk&&) = delete;
  ~PulledChunk();

  const ChunkRef& chunk() const { return chunk_; }

 private:
  ChunkRef chunk_;
  std::shared_ptr<PinnedBytes> pinned_;  // null: moved from
};

// Bytes that are reserved for copies not made yet. One thread at a time.
class PinnedReservation {
 public:
  PinnedReservation() = default;  // no bytes
  // Takes over `bytes`, which the caller has reserved in `pinned`.
  PinnedReservation(uint64_t bytes, std::shared_ptr<PinnedBytes> pinned)
      : bytes_(bytes), pinned_(std::move(pinned)) {}
  PinnedReservation(PinnedReservation&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)),
        suspended_(other.suspended_),
        pinned_(std::move(other.pinned_)) {}
  PinnedReservation& operator=(PinnedReservation&&) = delete;
  ~PinnedReservation();
  // Hands `bytes` of the reserved bytes to a copy. Returns false, and hands over none, if fewer are
  // left.
  bool Take(uint64_t bytes);
  // Suspend gives the bytes back while the pull has to wait. Renew reserves them again, or returns
  // false and reserves nothing if they do not fit now.
  void Suspend();
  bool Renew();

 private:
  uint64_t bytes_ = 0;
  uint64_t suspended_ = 0;
  std::shared_ptr<PinnedBytes> pinned_;  // null: moved from, or without bytes
};

// Memory for a pull's copy of values: of rows, or in another encoding. Counts as pinned from its
// construction on, so that exchanges meet the limit even while the values are copied.
class PulledCopy {
 public:
  // Takes the bytes out of `reserved` if that has enough; otherwise adds them to those pinned.
  PulledCopy(uint64_t bytes, std::shared_ptr<PinnedBytes> pinned,
             PinnedReservation* reserved = nullptr);
  PulledCopy(PulledCopy&& other) noexcept = default;
  PulledCopy& operator=(PulledCopy&&) = delete;
  ~PulledCopy();

  char* data() const { return data_; }  // uninitialised
  uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_;
  std::shared_ptr<PinnedBytes> pinned_;  // null: moved from
};

}  // namespace paracord
