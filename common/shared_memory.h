// Memory of this process that other processes on the host may map: files without a name (memfd),
// which vanish with the last process that has them. Large arrays that are sent (parameters,
// gradients) are allocated here, so that a peer on this host reads them where they are
// (net/shared_connection.h). Process-wide, thread-safe. Segments are kept until the process
// ends, their parts are used again. Where memory files are not to be had, or before
// EnableSharedMemory, it is ordinary memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>

namespace paracord {

// False if this system has no memory files.
bool EnableSharedMemory();

// Never null; aligned to 64 bytes. Small ones are ordinary memory: they are copied when sent.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory, size_t bytes);

struct SharedPlace {
  uint64_t segment = 0;  // from 1
  uint64_t offset = 0;   // bytes
};
// Where a peer finds `memory`; none if it is ordinary memory.
std::optional<SharedPlace> FindShared(const void* memory);

// The whole segment that it lies in, which stays until the process ends.
std::optional<std::span<const char>> FindSharedSegment(const void* memory);

struct SharedSegment {
  int fd = -1;  // belongs to the allocator, stays open
  uint64_t bytes = 0;
};
SharedSegment GetSharedSegment(uint64_t segment);

// A peer's segment, mapped read-only. Its file can neither shrink nor vanish under us.
class SharedMapping {
 public:
  // At once, of all peers: a quarter of what Linux lets a process map. Ours have 64 MiB and more.
  static constexpr int kMappingsMax = 16384;

  // Takes `fd`. None if it is not a file of that size that is sealed against shrinking, or there
  // are kMappingsMax.
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

// The same for arrays whose owner decides whether they are shared.
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
