#include "common/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace paracord {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint64_t kSharedFrom = 8 << 10;  // smaller arrays are cheaper to copy than to map
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSegmentBytes = 64 << 20;  // pages are allocated when touched

uint64_t Rounded(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct Segment {
  int fd;
  char* data;  // null: given back
  uint64_t bytes;
  uint64_t used = 0;     // parts are cut off from the front
  uint64_t parts = 0;    // parts in use
  bool touched = false;  // since the last Trim
};

std::optional<Segment> MakeSegment(uint64_t bytes) {
  const int fd = memfd_create("paracord", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return std::nullopt;
  // Peers map only files sealed against shrinking: reading behind a file's end kills the process.
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    close(fd);
    return std::nullopt;
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    return std::nullopt;
  }
#ifdef F_SEAL_FUTURE_WRITE
  fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);  // ours stays writable, a peer's is never
#endif
  return Segment{fd, static_cast<char*>(data), bytes};
}

class Arena {
 public:
  void* Allocate(uint64_t bytes) {
    const uint64_t wanted = Rounded(bytes);
    MutexLock lock(mu_);
    // Takes the smallest part that fits and wastes little, because sizes recur; among equals the
    // most recently used part, whose bytes may still be cached and whose pages are mapped.
    if (const auto fits = free_.lower_bound(wanted);
        fits != free_.end() && fits->first <= wanted + wanted / 4) {
      const auto last = std::prev(free_.upper_bound(fits->first));
      char* const data = last->second;
      sizes_[data] = last->first;
      idle_bytes_ -= last->first;
      free_.erase(last);
      Use(SegmentOf(data));
      return data;
    }
    if (segments_.empty() || segments_.back().data == nullptr ||
        segments_.back().bytes - segments_.back().used < wanted) {
      std::optional<Segment> segment = MakeSegment(std::max(wanted, kSegmentBytes));
      if (!segment.has_value()) return nullptr;
      by_address_[segment->data] = segments_.size();
      segments_.push_back(*segment);
    }
    Segment& segment = segments_.back();
    char* const data = segment.data + segment.used;
    segment.used += wanted;
    sizes_[data] = wanted;
    Use(segment);
    return data;
  }

  // Returns false if the memory does not belong to the arena.
  bool Free(char* data) {
    MutexLock lock(mu_);
    const auto it = sizes_.find(data);
    if (it == sizes_.end()) return false;
    free_.emplace(it->second, data);
    idle_bytes_ += it->second;
    sizes_.erase(it);
    Segment& segment = SegmentOf(data);
    --segment.parts;
    segment.touched = true;
    return true;
  }

  void Trim() {
    std::vector<Segment> closed;  // unmapped without the lock
    {
      MutexLock lock(mu_);
      for (Segment& segment : segments_) {
        const bool idle = segment.data != nullptr && segment.parts == 0 && !segment.touched;
        segment.touched = false;
        if (!idle || idle_bytes_ <= kIdleKept) continue;
        std::erase_if(free_, [&](const auto& part) {
          return part.second >= segment.data && part.second < segment.data + segment.bytes;
        });
        idle_bytes_ -= segment.used;
        by_address_.erase(segment.data);
        closed.push_back(segment);
        segment.data = nullptr;
      }
      closed_ += closed.size();
    }
    for (const Segment& segment : closed) {
      munmap(segment.data, segment.bytes);
      close(segment.fd);
    }
  }

  uint64_t idle_bytes() {
    MutexLock lock(mu_);
    return idle_bytes_;
  }
  uint64_t closed() const { return closed_; }
  bool IsOpen(uint64_t segment) {
    MutexLock lock(mu_);
    return segments_[segment - 1].data != nullptr;
  }

  std::optional<SharedPlace> Find(const char* data) {
    MutexLock lock(mu_);
    auto it = by_address_.upper_bound(data);
    if (it == by_address_.begin()) return std::nullopt;
    --it;
    const Segment& segment = segments_[it->second];
    const uint64_t offset = static_cast<uint64_t>(data - segment.data);
    if (offset >= segment.bytes) return std::nullopt;
    return SharedPlace{it->second + 1, offset};
  }

  std::optional<std::span<const char>> FindSegment(const char* data) {
    const std::optional<SharedPlace> place = Find(data);
    if (!place.has_value()) return std::nullopt;
    MutexLock lock(mu_);
    const Segment& segment = segments_[place->segment - 1];
    return std::span<const char>(segment.data, segment.bytes);
  }

  SharedSegment Get(uint64_t segment) {
    MutexLock lock(mu_);
    return {segments_[segment - 1].fd, segments_[segment - 1].bytes};
  }

 private:
  Segment& SegmentOf(const char* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return segments_[std::prev(by_address_.upper_bound(data))->second];
  }
  static void Use(Segment& segment) {
    ++segment.parts;
    segment.touched = true;
  }

  std::atomic<uint64_t> closed_{0};
  Mutex mu_;
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Segment> segments_ ABSL_GUARDED_BY(mu_);
  std::map<const char*, size_t> by_address_ ABSL_GUARDED_BY(mu_);  // index in segments_
  std::multimap<uint64_t, char*> free_ ABSL_GUARDED_BY(mu_);       // free parts by size
  std::map<char*, uint64_t> sizes_ ABSL_GUARDED_BY(mu_);           // sizes of the parts in use
};

Arena& TheArena() {
  static Arena* const arena = new Arena;  // never destroyed: static objects may free memory later
  return *arena;
}

std::atomic<bool> enabled{false};
std::atomic<int> mappings{0};  // mapped segments of peers

}  // namespace

bool EnableSharedMemory() {
  const std::optional<Segment> probe = MakeSegment(kPage);
  if (!probe.has_value()) return false;
  munmap(probe->data, probe->bytes);
  close(probe->fd);
  enabled = true;
  return true;
}

void* AllocateShared(size_t bytes) {
  if (enabled && bytes >= kSharedFrom) {
    if (void* const memory = TheArena().Allocate(bytes)) return memory;
  }
  return ::operator new(bytes, kAlignment);
}

void FreeShared(void* memory, size_t bytes) {
  if (enabled && bytes >= kSharedFrom && TheArena().Free(static_cast<char*>(memory))) return;
  ::operator delete(memory, kAlignment);
}

std::pmr::memory_resource* SharedMemoryResource() {
  class Resource : public std::pmr::memory_resource {
    void* do_allocate(size_t bytes, size_t) override { return AllocateShared(bytes); }
    void do_deallocate(void* memory, size_t bytes, size_t) override { FreeShared(memory, bytes); }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
  };
  static Resource resource;
  return &resource;
}

std::optional<SharedPlace> FindShared(const void* memory) {
  if (!enabled) return std::nullopt;
  return TheArena().Find(static_cast<const char*>(memory));
}

std::optional<std::span<const char>> FindSharedSegment(const void* memory) {
  if (!enabled) return std::nullopt;
  return TheArena().FindSegment(static_cast<const char*>(memory));
}

SharedSegment GetSharedSegment(uint64_t segment) { return TheArena().Get(segment); }

void TrimSharedMemory() {
  if (enabled) TheArena().Trim();
}

uint64_t IdleSharedBytes() { return enabled ? TheArena().idle_bytes() : 0; }

uint64_t SharedSegmentsClosed() { return enabled ? TheArena().closed() : 0; }

bool IsSharedSegmentOpen(uint64_t segment) { return TheArena().IsOpen(segment); }

std::optional<SharedMapping> SharedMapping::Map(int fd, uint64_t bytes) {
  struct stat file {};
  const int seals = fcntl(fd, F_GET_SEALS);
  void* data = MAP_FAILED;
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &file) == 0 && bytes > 0 &&
      static_cast<uint64_t>(file.st_size) >= bytes) {
    if (++mappings <= kMappingsMax) data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) --mappings;
  }
  close(fd);
  if (data == MAP_FAILED) return std::nullopt;
  return SharedMapping(static_cast<const char*>(data), bytes);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SharedMapping::~SharedMapping() {
  if (data_ == nullptr) return;
  munmap(const_cast<char*>(data_), bytes_);
  --mappings;
}

}  // namespace paracord
