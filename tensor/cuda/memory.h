// Allocates the device's memory. While a plan is made, allocations take nothing from the device and
// only get places in an address range that nobody may access. The end of the plan takes an arena
// from the device: one piece of memory, with room for all these places and for the bytes that the
// caller wants besides. Later allocations get places in the arena. An allocation without room in
// the arena, or without a plan, is taken from the device separately. Owned by the engine; used by
// one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

// Allocates places, first-fit, in a range of bytes that grows as needed. Accesses no memory.
class Places {
 public:
  size_t Take(size_t bytes);
  // Frees the place that begins at `at`. Returns false if no allocated place begins there.
  bool Give(size_t at) { return used_.erase(at) == 1; }
  size_t end() const { return end_; }  // the highest end of any place so far
  bool empty() const { return used_.empty(); }
  // The begin of the place that Take would choose.
  size_t Find(size_t bytes) const;

 private:
  std::map<size_t, size_t> used_;  // sizes, keyed by begin
  size_t end_ = 0;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Runtime& runtime) : runtime_(runtime) {}
  // Frees the arena; the device must be idle.
  ~DeviceMemory();

  absl::StatusOr<void*> Take(size_t bytes);
  absl::Status Give(void* memory);
  // False if there is an arena that has no room for `bytes`: Take would allocate from the device.
  bool HasPlace(size_t bytes) const {
    return arena_ == nullptr || places_.Find(Padded(bytes)) + Padded(bytes) <= arena_bytes_;
  }
  bool has_plan() const { return arena_ != nullptr; }

  // Begins a plan. Called at most once, before the first Take; all memory taken during the plan
  // must be given back before EndPlan.
  void BeginPlan() { planning_ = true; }
  // Takes an arena of planned() bytes and `before` bytes more, for allocations that the caller
  // makes right after the plan. Ends the planning even if it returns an error: RESOURCE_EXHAUSTED
  // if the device has too little memory, INTERNAL if memory was not given back.
  absl::Status EndPlan(size_t before);
  bool planning() const { return planning_; }
  // The bytes planned so far.
  size_t planned() const { return places_.end(); }
  // The bytes that an allocation of `bytes` takes in the arena.
  size_t Padded(size_t bytes) const;

 private:
  Runtime& runtime_;
  bool planning_ = false;
  char* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  Places places_;  // in the arena or, while planning, in the range that nobody may access
  std::set<void*> taken_;
};

}  // namespace paracord::cuda
