// Memory in whole pages, as processes share it. Only whole pages can be page-locked.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace paracord {

inline size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT: implicit, as in all allocators
  T* allocate(size_t n) {
    const size_t page = PageBytes();
    void* const memory = std::aligned_alloc(page, (n * sizeof(T) + page - 1) / page * page);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const PageAllocator&) const { return true; }
};

using PageFloats = std::vector<float, PageAllocator<float>>;

}  // namespace paracord
