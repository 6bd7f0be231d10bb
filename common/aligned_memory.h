// Allocators of arrays whose first byte is aligned to a cache line. Libraries such as XLA read
// aligned arrays in place, and copy unaligned arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <vector>

namespace paracord {

inline constexpr size_t kArrayAlignment = 64;

inline bool IsArrayAligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % kArrayAlignment == 0;
}

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{kArrayAlignment}));
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{kArrayAlignment}); }
  bool operator==(const AlignedAllocator&) const { return true; }
};
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

// Allocates like AlignedAllocator, for an array whose memory resource is picked at run time.
inline std::pmr::memory_resource* AlignedMemoryResource() {
  class Resource : public std::pmr::memory_resource {
    void* do_allocate(size_t bytes, size_t) override {
      return AlignedAllocator<char>().allocate(bytes);
    }
    void do_deallocate(void* memory, size_t bytes, size_t) override {
      AlignedAllocator<char>().deallocate(static_cast<char*>(memory), bytes);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
  };
  static Resource resource;
  return &resource;
}

}  // namespace paracord
