// Memory of this process that other processes of the host may map: memory files (memfd), which
// vanish with the last process that has them. Large arrays that are sent (parameters, gradients)
// are allocated here, so that a peer on this host reads them in place (net/shared_connection.h).
// Process-wide, thread-safe. Parts of segments are reused; a segment that nobody uses is given back
// where the process asks for it (TrimSharedMemory). Before EnableSharedMemory, and on systems
// without memory files, it is ordinary memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>

namespace paracord {

// Turns memory files on. False if this system has none.
bool EnableSharedMemory();

// Never returns null; aligned to 64 bytes. Small arrays are ordinary memory, because they are
// copied when sent.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory, size_t bytes);

struct SharedPlace {
  uint64_t segment = 0;  // from 1
  uint64_t offset = 0;   // bytes
};
// Returns where a peer finds `memory`; nullopt if it is ordinary memory.
std::optional<SharedPlace> FindShared(const void* memory);

// Gives back the segments of which no part was in use since the call before, down to kIdleKept.
// Peers that map them keep their memory until they are told (net/shared_connection.h). Not in a
// process that asks for FindSharedSegment.
void TrimSharedMemory();
inline constexpr uint64_t kIdleKept = 32 << 20;
// Bytes of parts that are free, which stay resident.
uint64_t IdleSharedBytes();
// How often a segment was given back, and whether this one was.
uint64_t SharedSegmentsClosed();
bool IsSharedSegmentOpen(uint64_t segment);

// Returns the whole segment that contains `memory`; it is mapped until the process ends.
std::optional<std::span<const char>> FindSharedSegment(const void* memory);

struct SharedSegment {
  int fd = -1;  // owned by the allocator; stays open
  uint64_t bytes = 0;
};
SharedSegment GetSharedSegment(uint64_t segment);

// A peer's segment, mapped read-only. Its file can neither shrink nor vanish while it is mapped.
class SharedMapping {
 public:
  // The limit over all peers: a quarter of the mappings that Linux allows. Segments have 64 MiB and
  // more.
  static constexpr int kMappingsMax = 16384;

  // Maps `fd` and takes ownership of it. Returns nullopt if it is no file of that size that is
  // sealed against shrinking, or if there are kMappingsMax already.
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

// A memory resource for arrays whose owner decides at run time whether they are shared.
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
