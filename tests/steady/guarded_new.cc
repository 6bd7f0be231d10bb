#include "steady/guarded_new.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace paracord {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kLeast = 64, kMost = size_t{16} << 20;
constexpr size_t kRegion = size_t{1} << 40;  // addresses, each given out once

std::atomic<bool> guards{false};
std::atomic<char*> region{nullptr};
std::atomic<size_t> used{0};

// Each allocation takes two mappings. Linux allows 65,530 for the process.
constexpr int kLiveMost = 20000;
std::atomic<int> live{0};

void* Reserve(void* at, size_t length, int flags) {
  const int kept = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  return mmap(at, length, PROT_NONE, kept | flags, -1, 0);
}

bool IsGuarded(const void* at) {
  const char* begin = region.load();
  return begin != nullptr && at >= begin && at < begin + kRegion;
}

// Returns the slot before `at` with the length of its pages.
uint64_t* LengthOf(void* at) { return static_cast<uint64_t*>(at) - 1; }

void* Guarded(size_t bytes) {
  if (live.load() >= kLiveMost) return nullptr;
  const size_t length = (bytes + sizeof(uint64_t) + kPage - 1) / kPage * kPage;
  const size_t offset = used.fetch_add(length + kPage);
  char* pages = region.load() + offset;
  if (offset + length > kRegion || mprotect(pages, length, PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  void* at = pages + length - bytes;
  *LengthOf(at) = length;
  ++live;
  return at;
}

void* New(size_t bytes) {
  const bool whole = bytes % sizeof(uint64_t) == 0;  // other sizes would end in alignment padding
  if (guards.load() && whole && bytes >= kLeast && bytes <= kMost) {
    if (void* at = Guarded(bytes)) return at;
  }
  if (void* at = std::malloc(bytes > 0 ? bytes : 1)) return at;
  throw std::bad_alloc();
}

void Delete(void* at) {
  if (!IsGuarded(at)) return std::free(at);
  const size_t length = *LengthOf(at);
  const uintptr_t before = reinterpret_cast<uintptr_t>(LengthOf(at));
  void* pages = reinterpret_cast<void*>(before / kPage * kPage);
  Reserve(pages, length, MAP_FIXED);  // untouched pages could merge with their neighbours
  --live;
}

}  // namespace

GuardedNew::GuardedNew() {
  if (region.load() == nullptr) {
    void* at = Reserve(nullptr, kRegion, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    region = static_cast<char*>(at);
  }
  guards = true;
}
GuardedNew::~GuardedNew() { guards = false; }

}  // namespace paracord

void* operator new(size_t bytes) { return paracord::New(bytes); }
void* operator new[](size_t bytes) { return paracord::New(bytes); }
void operator delete(void* at) noexcept { paracord::Delete(at); }
void operator delete[](void* at) noexcept { paracord::Delete(at); }
void operator delete(void* at, size_t) noexcept { paracord::Delete(at); }
void operator delete[](void* at, size_t) noexcept { paracord::Delete(at); }
