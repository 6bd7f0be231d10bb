// Memory of this process that other processes of the host may map: memory files (memfd), which
// vanish with the last process that holds them. Large arrays to be sent (parameters, gradients) are
// allocated here; a peer on this host reads them in place (net/shared_connection.h). A memory file
// is a segment, from which arrays get parts; free parts are reused. Process-wide, thread-safe.
// Before EnableSharedMemory, and on systems without memory files, all memory is ordinary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>

namespace paracord {

// Turns memory files on. Returns false if the system has none.
bool EnableSharedMemory();

// Never returns null; aligned to 64 bytes. Arrays below 8 KiB get ordinary memory, because their
// bytes are copied when sent.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory, size_t bytes);

struct SharedPlace {
  uint64_t segment = 0;  // segments are numbered from 1
  uint64_t offset = 0;   // bytes
};
// Returns the segment and offset of `memory`; nullopt for ordinary memory.
std::optional<SharedPlace> FindShared(const void* memory);

// Returns to the kernel the segments without a used part since the previous call, while more than
// kIdleKept bytes of parts are free. Peers keep their mappings until told
// (net/shared_connection.h). Not for a process that uses FindSharedSegment.
void TrimSharedMemory();
inline constexpr uint64_t kIdleKept = 32 << 20;
// Returns the bytes of free parts, which are still resident.
uint64_t IdleSharedBytes();
// Returns how many segments were returned to the kernel so far, and whether `segment` was not.
uint64_t SharedSegmentsClosed();
bool IsSharedSegmentOpen(uint64_t segment);

// Returns the whole segment around `memory`, mapped until the process ends; nullopt for ordinary
// memory.
std::optional<std::span<const char>> FindSharedSegment(const void* memory);

struct SharedSegment {
  int fd = -1;  // owned by the allocator; open until the segment is returned to the kernel
  uint64_t bytes = 0;
};
SharedSegment GetSharedSegment(uint64_t segment);

// A peer's segment, mapped read-only. While mapped, its file can neither shrink nor vanish.
class SharedMapping {
 public:
  // The most segments mapped at once, of all peers together: a quarter of the mappings that Linux
  // allows a process. A segment has at least 64 MiB.
  static constexpr int kMappingsMax = 16384;

  // Maps `fd` and closes it. Returns nullopt unless `fd` is a file of at least `bytes` bytes,
  // sealed against shrinking, or if kMappingsMax is reached.
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

// Allocates by AllocateShared, for arrays whose owner picks the memory resource at run time.
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
