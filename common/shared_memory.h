// Memory of this process that other processes on the host may map: memory files (memfd), each of
// which vanishes with the last process that has it open or mapped. Large arrays that are to be sent
// (parameters, gradients) are allocated here, and a peer on this host reads them where they are
// (net/shared_connection.h). A memory file is called a segment. An array gets a part of a segment,
// and freed parts are used again. Thread-safe. Before EnableSharedMemory, and on systems without
// memory files, all memory is ordinary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>

namespace paracord {

// Turns on allocation from memory files. Returns false if the system has none.
bool EnableSharedMemory();

// Never returns null. The memory is aligned to 64 bytes, and ordinary if `bytes` is below 8 KiB.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory, size_t bytes);

struct SharedPlace {
  uint64_t segment = 0;  // segments are numbered from 1
  uint64_t offset = 0;   // bytes
};
// Returns where `memory` is in its segment; nullopt for ordinary memory.
std::optional<SharedPlace> FindShared(const void* memory);

// Gives segments back to the kernel, as long as more than kIdleKept bytes of parts are free:
// segments of which no part has been in use since the previous call. A peer keeps its mapping of a
// segment until told (net/shared_connection.h). Not for a process that uses FindSharedSegment.
void TrimSharedMemory();
inline constexpr uint64_t kIdleKept = 32 << 20;
// Returns how many bytes of parts are free. Free parts still take memory.
uint64_t IdleSharedBytes();
// Returns how many segments have been given back to the kernel so far.
uint64_t SharedSegmentsClosed();
// Returns false once `segment` has been given back to the kernel.
bool IsSharedSegmentOpen(uint64_t segment);

// Returns the whole segment around `memory`, which stays mapped until the process ends if nobody
// calls TrimSharedMemory; nullopt for ordinary memory.
std::optional<std::span<const char>> FindSharedSegment(const void* memory);

struct SharedSegment {
  // Open until the segment is given back; not to be closed.
  int fd = -1;
  uint64_t bytes = 0;
};
SharedSegment GetSharedSegment(uint64_t segment);

// A peer's segment, mapped read-only. While mapped, its file can neither shrink nor vanish.
class SharedMapping {
 public:
  // The most segments mapped at once: a quarter of the mappings that Linux allows by default.
  static constexpr int kMappingsMax = 16384;

  // Maps the first `bytes` bytes of `fd`, and closes `fd` in any case. Returns nullopt if `fd` is
  // no file of at least `bytes` bytes that is sealed against shrinking, or if no more can be
  // mapped.
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

// Calls AllocateShared, for an array whose memory resource is picked at run time.
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
