#include "steady/counted_malloc.h"

#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

// glibc's allocator, under the names that glibc exports for replacements.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* at);
}

namespace paracord {
namespace {

constexpr size_t kOff = std::numeric_limits<size_t>::max();

std::atomic<size_t> least{kOff}, largest{0};
std::atomic<uint64_t> counted{0};
std::atomic<int64_t> held{0}, most_held{0};

// On CPUs without AVX-512, oneDNN's matrix products allocate memory on each call.
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
  // Set a breakpoint here to see who allocates.
}

// Allocations and frees both count the usable size, so that they balance.
void* Hold(void* at) {
  const size_t bytes = at == nullptr ? 0 : malloc_usable_size(at);
  if (bytes < least.load(std::memory_order_relaxed)) return at;
  const int64_t now = held += static_cast<int64_t>(bytes);
  int64_t before = most_held.load();
  while (now > before && !most_held.compare_exchange_weak(before, now)) {
  }
  return at;
}

void LetGo(void* at) {
  const size_t bytes = at == nullptr ? 0 : malloc_usable_size(at);
  if (bytes >= least.load(std::memory_order_relaxed)) held -= static_cast<int64_t>(bytes);
}

}  // namespace

void StartCounting(size_t bytes) {
  counted = 0;
  largest = 0;
  held = most_held = 0;
  least = bytes;
}

LargeAllocations StopCounting() {
  least = kOff;
  return {counted.load(), largest.load(), most_held.load()};
}

}  // namespace paracord

extern "C" {

void* malloc(size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return paracord::Hold(__libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes) {
  paracord::Count(count * bytes, __builtin_return_address(0));
  return paracord::Hold(__libc_calloc(count, bytes));
}
void* realloc(void* at, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  paracord::LetGo(at);
  return paracord::Hold(__libc_realloc(at, bytes));
}
void* memalign(size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return paracord::Hold(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  return paracord::Hold(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  paracord::Count(bytes, __builtin_return_address(0));
  *to = paracord::Hold(__libc_memalign(alignment, bytes));
  return *to == nullptr ? ENOMEM : 0;
}
void free(void* at) {
  paracord::LetGo(at);
  __libc_free(at);
}
}
