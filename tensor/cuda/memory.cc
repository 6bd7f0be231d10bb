#include "tensor/cuda/memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord::cuda {
namespace {

constexpr size_t kAlignment = 256;  // the alignment of cudaMalloc

// The addresses of planned places, never accessed.
char* Nowhere(size_t at) {
  return reinterpret_cast<char*>((uintptr_t{1} << 44) + at);  // NOLINT: never followed
}

}  // namespace

size_t Places::Find(size_t bytes) const {
  size_t at = 0;
  for (const auto& [begin, size] : used_) {
    if (begin - at >= bytes) break;
    at = begin + size;
  }
  return at;
}

size_t Places::Take(size_t bytes) {
  const size_t at = Find(bytes);
  used_[at] = bytes;
  end_ = std::max(end_, at + bytes);
  return at;
}

DeviceMemory::~DeviceMemory() {
  if (arena_ != nullptr) (void)runtime_.Free(arena_);
}

size_t DeviceMemory::Padded(size_t bytes) const {
  return (bytes + runtime_.gap_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<void*> DeviceMemory::Take(size_t bytes) {
  const size_t padded = Padded(bytes);
  void* memory = nullptr;
  if (planning_) {
    memory = Nowhere(places_.Take(padded));
  } else if (arena_ != nullptr && HasPlace(bytes)) {
    memory = arena_ + places_.Take(padded);
    runtime_.Use(memory, bytes);
  } else {
    ASSIGN_OR_RETURN(memory, runtime_.Malloc(bytes));
  }
  taken_.insert(memory);
  return memory;
}

absl::Status DeviceMemory::Give(void* memory) {
  if (taken_.erase(memory) == 0) {
    return absl::InternalError("device memory that was never taken");
  }
  auto* const at = static_cast<char*>(memory);
  if (planning_) {
    places_.Give(static_cast<size_t>(at - Nowhere(0)));
    return absl::OkStatus();
  }
  if (arena_ == nullptr || at < arena_ || at >= arena_ + arena_bytes_) return runtime_.Free(memory);
  places_.Give(static_cast<size_t>(at - arena_));
  runtime_.Unuse(memory);
  return absl::OkStatus();
}

absl::Status DeviceMemory::EndPlan(size_t before) {
  planning_ = false;
  const size_t bytes = before + std::exchange(places_, {}).end();
  if (!taken_.empty()) return absl::InternalError("a plan of memory that is still in use");
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* const memory, runtime_.Malloc(bytes));
  arena_ = static_cast<char*>(memory);
  arena_bytes_ = bytes;
  runtime_.Part(memory);
  return absl::OkStatus();
}

}  // namespace paracord::cuda
