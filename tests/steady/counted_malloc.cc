#include "steady/counted_malloc.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

// glibc's own functions, under names that it exports for such replacements.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace paracord {
namespace {

constexpr size_t kOff = std::numeric_limits<size_t>::max();

std::atomic<size_t> least{kOff}, largest{0};
std::atomic<uint64_t> counted{0};

// On processors without AVX-512, oneDNN's matrix products allocate memory at each call.
bool InDnnl(const void* caller) {
  Dl_info from{};
  return dladdr(caller, &from) != 0 && from.dli_fname != nullptr &&
         std::strstr(from.dli_fname, "libdnnl") != nullptr;
}

void Count(size_t bytes, const void* caller) {
  if (bytes < least.load(std::memory_order_relaxed) || InDnnl(caller)) return;
  ++counted;
  size_t before = largest.load();
  while (bytes > before && !largest.compare_exchange_weak(before, bytes)) {
  }
  // Set a breakpoint here to find out who allocates.
}

}  // namespace

void StartCounting(size_t bytes) {
  counted = 0;
  largest = 0;
  least = bytes;
}

LargeAllocations StopCounting() {
  least = kOff;
  return {counted.load(), largest.load()};
}

}  // namespace paracord

extern "C" {

void* malloc(size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  paracord::Count(count * bytes, __builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* at, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return __libc_realloc(at, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  *to = __libc_memalign(alignment, bytes);
  return *to == nullptr ? ENOMEM : 0;
}
}
