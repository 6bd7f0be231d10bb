#include "tests/cuda_host/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

namespace paracord::cuda {
namespace {

// A NaN that no arithmetic gives; each half is such a NaN of bfloat16.
constexpr uint16_t kNeverHalf = 0x7fba;
constexpr uint32_t kNever = kNeverHalf << 16 | kNeverHalf;

void FillNever(char* at, size_t bytes) {
  for (size_t i = 0; i + sizeof(kNever) <= bytes; i += sizeof(kNever)) {
    std::memcpy(at + i, &kNever, sizeof(kNever));
  }
}

template <class Word>
Word LoadWord(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

bool IsNever(const char* at, size_t bytes = sizeof(kNever)) {
  if (bytes >= sizeof(kNever)) return LoadWord<uint32_t>(at) == kNever;
  return bytes >= sizeof(kNeverHalf) && LoadWord<uint16_t>(at) == kNeverHalf;
}

}  // namespace

HostMemory::~HostMemory() {
  Show(true);
  for (const auto& [begin, allocation] : allocations_) std::free(allocation.memory);
}

void* HostMemory::Allocate(size_t bytes) {
  const size_t rounded = (bytes + 3) / 4 * 4;
  Allocation allocation;
  allocation.memory = static_cast<char*>(std::malloc(rounded + 2 * kGuard));
  allocation.begin = allocation.memory + kGuard;
  allocation.bytes = bytes;
  FillNever(allocation.memory, rounded + 2 * kGuard);
  ++live_;
  void* begin = allocation.begin;
  ASAN_POISON_MEMORY_REGION(begin, bytes);
  allocations_[allocation.begin] = allocation;
  return begin;
}

void HostMemory::CheckGuards(const Allocation& allocation) {
  const size_t rounded = (allocation.bytes + 3) / 4 * 4;
  for (size_t i = 0; i < kGuard; i += 4) {
    if (IsNever(allocation.memory + i) && IsNever(allocation.begin + rounded + i)) continue;
    Note(absl::StrCat("written outside of an allocation of ", allocation.bytes, " bytes"));
  }
}

bool HostMemory::Free(void* memory) {
  const auto found = allocations_.find(static_cast<char*>(memory));
  if (found == allocations_.end() || !found->second.lives) return false;
  CheckGuards(found->second);
  found->second.lives = false;
  --live_;
  return true;
}

const HostMemory::Allocation* HostMemory::Find(const char* at) {
  for (const Allocation* last : last_) {
    if (last != nullptr && at >= last->begin && at < last->begin + last->bytes) return last;
  }
  const Allocation* allocation = FindIn(allocations_, at);
  if (allocation != nullptr && allocation->parted) allocation = FindIn(parts_, at);
  if (allocation != nullptr) last_[next_++ % 4] = allocation;
  return allocation;
}

const HostMemory::Allocation* HostMemory::FindIn(const std::map<const char*, Allocation>& map,
                                                 const char* at) const {
  const auto found = map.upper_bound(at);
  if (found == map.begin()) return nullptr;
  const Allocation& allocation = std::prev(found)->second;
  return at < allocation.begin + allocation.bytes ? &allocation : nullptr;
}

void HostMemory::Part(void* allocation) {
  allocations_.at(static_cast<char*>(allocation)).parted = true;
  std::fill(std::begin(last_), std::end(last_), nullptr);
}

void HostMemory::Use(void* part, size_t bytes) {
  auto* const begin = static_cast<char*>(part);
  const Allocation* const whole = FindIn(allocations_, begin);
  if (whole == nullptr || !whole->parted || begin + bytes > whole->begin + whole->bytes) {
    return Note("a part beyond its allocation");
  }
  std::fill(std::begin(last_), std::end(last_), nullptr);
  auto other = parts_.upper_bound(begin);
  if (other != parts_.begin() &&
      std::prev(other)->second.begin + std::prev(other)->second.bytes > begin) {
    --other;
  }
  while (other != parts_.end() && other->first < begin + bytes) {
    if (other->second.lives) return Note("two parts in one place");
    other = parts_.erase(other);
  }
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  FillNever(begin, bytes);
  ASAN_POISON_MEMORY_REGION(begin, bytes);
  Allocation& allocation = parts_[begin];
  allocation.begin = begin;
  allocation.bytes = bytes;
}

void HostMemory::Unuse(void* part) {
  const auto found = parts_.find(static_cast<char*>(part));
  if (found == parts_.end() || !found->second.lives) return Note("no such part is in use");
  found->second.lives = false;
}

bool HostMemory::Allows(const void* at, size_t bytes, bool written, const char* who) {
  if (bytes == 0) return true;
  const auto* from = static_cast<const char*>(at);
  const Allocation* allocation = Find(from);
  if (allocation == nullptr) return Refuse(who, "memory that is not the device's");
  if (!allocation->lives) return Refuse(who, "memory that was freed");
  if (from + bytes > allocation->begin + allocation->bytes) return RefuseBeyond(who, *allocation);
  if (!written) return true;
  // Only the first word of a structure is checked, because it may have padding.
  const size_t checked = bytes > 8 && bytes % 4 == 0 && bytes < 128 ? 4 : bytes;
  for (size_t i = 0; i < checked; i += 4) {
    if (IsNever(from + i, checked - i)) return RefuseNever(who, *allocation, from + i);
  }
  return true;
}

bool HostMemory::Refuse(const char* who, const char* why) {
  Note(absl::StrCat(who, ": ", why));
  return false;
}

bool HostMemory::RefuseBeyond(const char* who, const Allocation& allocation) {
  return Refuse(who, absl::StrCat("beyond the end of ", allocation.bytes, " bytes").c_str());
}

bool HostMemory::RefuseNever(const char* who, const Allocation& allocation, const char* at) {
  return Refuse(
      who, absl::StrCat("never written, ", at - allocation.begin, " bytes into ", allocation.bytes)
               .c_str());
}

void HostMemory::Show(bool to_host_code) {
  for (const auto& [begin, allocation] : allocations_) {
    if (to_host_code) {
      ASAN_UNPOISON_MEMORY_REGION(allocation.begin, allocation.bytes);
    } else {
      ASAN_POISON_MEMORY_REGION(allocation.begin, allocation.bytes);
    }
  }
}

}  // namespace paracord::cuda
