// Memory of this process that other processes of the host may map: memory files (memfd), which
// vanish with the last process that holds them. Large arrays to be sent (parameters, gradients) are
// allocated here; a peer on this host reads them in place (net/shared_connection.h). Process-wide,
// thread-safe. Parts of segments are reused; TrimSharedMemory returns unused segments to the
// kernel. Before EnableSharedMemory, and on systems without memory files, all memory is ordinary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>

namespace paracord {

// Turns memory files on. False if the system has none.
bool EnableSharedMemory();

// Never returns null; aligned to 64 bytes. Small arrays are ordinary memory, because sending copies
// them.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory, size_t bytes);

struct SharedPlace {
  uint64_t segment = 0;  // from 1
  uint64_t offset = 0;   // bytes
};
// Returns the segment and offset of `memory`; nullopt for ordinary memory.
std::optional<SharedPlace> FindShared(const void* memory);

// Returns segments unused since the previous call to the kernel, down to kIdleKept. Peers keep
// their mappings until told (net/shared_connection.h). Not for a process that uses
// FindSharedSegment.
void TrimSharedMemory();
inline constexpr uint64_t kIdleKept = 32 << 20;
// Bytes of free parts, still resident.
uint64_t IdleSharedBytes();
// How many segments were returned to the kernel so far, and whether `segment` is still open.
uint64_t SharedSegmentsClosed();
bool IsSharedSegmentOpen(uint64_t segment);

// Returns the whole segment around `memory`, mapped until the process ends.
std::optional<std::span<const char>> FindSharedSegment(const void* memory);

struct SharedSegment {
  int fd = -1;  // owned by the allocator; stays open
  uint64_t bytes = 0;
};
SharedSegment GetSharedSegment(uint64_t segment);

// A peer's segment, mapped read-only. The file can neither shrink nor vanish while mapped.
class SharedMapping {
 public:
  // The limit over all peers: a quarter of the mappings allowed by Linux. Segments have 64 MiB and
  // more.
  static constexpr int kMappingsMax = 16384;

  // Maps `fd` and takes ownership. Returns nullopt unless `fd` is a file of `bytes`, sealed against
  // shrinking, or if kMappingsMax is reached.
  static std::optional<SharedMapping> Map(int fd, uint64_t bytes);
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();
  const char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  SharedMapping(const char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  const char* data_;
  uint64_t bytes_;
};

// A memory resource for arrays whose owner decides at run time whether to share them.
std::pmr::memory_resource* SharedMemoryResource();

template <class T>
struct SharedAllocator {
  using value_type = T;
  SharedAllocator() = default;
  template <class U>
  SharedAllocator(const SharedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t n) { return static_cast<T*>(AllocateShared(n * sizeof(T))); }
  void deallocate(T* p, size_t n) { FreeShared(p, n * sizeof(T)); }
  bool operator==(const SharedAllocator&) const { return true; }
};

}  // namespace paracord
