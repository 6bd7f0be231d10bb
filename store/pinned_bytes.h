// The bytes that slow readers cost on top of what a ps holds. A chunk of it counts while it is
// stale (its block has a newer one) and a pull has it, a copy in another encoding while its pull
// has it; snapshots hold chunks too and do not count, because training never waits for one. Owned
// by the door, by partitions and by replies, which may outlive both. Thread-safe; the usual path
// takes no lock. It makes nobody wait: the door does (server/parked.cc).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "store/block.h"

namespace paracord {

class PinnedBytes {
 public:
  static constexpr uint64_t kUnlimited = uint64_t{1} << 62;

  explicit PinnedBytes(uint64_t bytes_max = kUnlimited);

  uint64_t bytes() const;
  bool Above() const { return bytes_ > limit_; }

  // True: Above(), and `fell` will run, once, when it no longer is.
  bool Wait();

  // For Wait: on whatever thread let go (it may be inside of gRPC), so it should only post. When
  // this returns the one before it does not run any more.
  void Watch(std::function<void()> fell);

  // Who holds what is pinned now does not let go. It counts no more against the limit, for as long
  // as it is held, so that others meet the limit with what they pin themselves.
  void Forgive();

  // `chunk` is no longer part of its block.
  void Replaced(const ChunkRef& chunk);

 private:
  friend class PulledChunk;
  friend class PulledCopy;
  void Add(uint64_t bytes) { bytes_ += static_cast<int64_t>(bytes); }
  void Subtract(uint64_t bytes);

  const int64_t bytes_max_;
  // For a moment below 0, where a chunk is let go as it is replaced.
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> limit_;  // bytes_max_ and what is forgiven; written under mu_

  std::atomic<bool> waits_{false};
  Mutex mu_;
  std::function<void()> fell_ ABSL_GUARDED_BY(mu_);
};

// A chunk on its way to a reader.
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

// A chunk's values in another encoding on their way to a reader: memory to write them to, which
// counts from the first moment, so that whoever comes while they are converted meets the limit.
class PulledCopy {
 public:
  PulledCopy(uint64_t bytes, std::shared_ptr<PinnedBytes> pinned);
  PulledCopy(PulledCopy&& other) noexcept = default;
  PulledCopy& operator=(PulledCopy&&) = delete;
  ~PulledCopy();

  char* data() const { return data_; }  // not initialised
  uint64_t bytes() const { return bytes_; }

 private:
  char* data_;
  uint64_t bytes_;
  std::shared_ptr<PinnedBytes> pinned_;  // null: moved from
};

}  // namespace paracord
