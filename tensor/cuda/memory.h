// Allocates the device's memory. Planning takes nothing from the device: allocations only get
// places in an address range that nobody may access. The end of the plan takes the peak of these
// places from the device, as an arena, and later allocations get places in the arena. An allocation
// without room in the arena, or without a plan, is taken from the device separately. Owned by the
// engine; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

// Places in a range of bytes that grows as needed, allocated first-fit. Pure.
class Places {
 public:
  size_t Take(size_t bytes);
  // Frees a place; false if not allocated.
  bool Give(size_t at) { return used_.erase(at) == 1; }
  size_t end() const { return end_; }  // the highest end of any place so far
  bool empty() const { return used_.empty(); }
  // The place that Take would choose.
  size_t Find(size_t bytes) const;

 private:
  std::map<size_t, size_t> used_;  // sizes, keyed by begin
  size_t end_ = 0;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Runtime& runtime) : runtime_(runtime) {}
  // The device must be idle. Frees the arena.
  ~DeviceMemory();

  absl::StatusOr<void*> Take(size_t bytes);
  absl::Status Give(void* memory);
  // False if there is an arena and Take would have to go to the device.
  bool HasPlace(size_t bytes) const {
    return arena_ == nullptr || places_.Find(Padded(bytes)) + Padded(bytes) <= arena_bytes_;
  }
  bool has_plan() const { return arena_ != nullptr; }

  // Begins a plan, once, before the first Take; everything taken must be given back before EndPlan.
  void BeginPlan() { planning_ = true; }
  // Takes an arena for the planned places and `before` bytes more. The plan is over even after an
  // error.
  absl::Status EndPlan(size_t before);
  bool planning() const { return planning_; }
  // The bytes planned so far.
  size_t planned() const { return places_.end(); }
  // The bytes of an allocation in the arena.
  size_t Padded(size_t bytes) const;

 private:
  Runtime& runtime_;
  bool planning_ = false;
  char* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  Places places_;  // in the arena, or in the plan
  std::set<void*> taken_;
};

}  // namespace paracord::cuda
