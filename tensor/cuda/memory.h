// The device's memory as the engine gives it out. A plan takes it at once: while one is made
// nothing is taken and places are only counted, at addresses that nobody may follow; its end takes
// the most that was in use, and what is asked for later gets its place in that. What has no place
// there (or where there was no plan) is taken on its own. Owned by the engine; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

// Places in a range of bytes that grows as needed: the first that is free. Pure.
class Places {
 public:
  size_t Take(size_t bytes);
  // True: it was there.
  bool Give(size_t at) { return used_.erase(at) == 1; }
  size_t end() const { return end_; }  // of the last there ever was
  bool empty() const { return used_.empty(); }
  // Where Take would find it.
  size_t Find(size_t bytes) const;

 private:
  std::map<size_t, size_t> used_;  // bytes, by where they begin
  size_t end_ = 0;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Runtime& runtime) : runtime_(runtime) {}
  // Nothing may be in use by the device. Frees what the plan took.
  ~DeviceMemory();

  absl::StatusOr<void*> Take(size_t bytes);
  absl::Status Give(void* memory);
  // False: there was a plan, and Take would have to ask the device.
  bool HasPlace(size_t bytes) const {
    return arena_ == nullptr || places_.Find(Padded(bytes)) + Padded(bytes) <= arena_bytes_;
  }
  bool has_plan() const { return arena_ != nullptr; }

  // Once, before anything is taken; and when all that was taken since was given back.
  void BeginPlan() { planning_ = true; }
  // Takes the places there were, and so many bytes before them. The plan ends whatever comes of it.
  absl::Status EndPlan(size_t before);
  bool planning() const { return planning_; }
  // Of the plan as far as it is made.
  size_t planned() const { return places_.end(); }
  // What so many take of a plan.
  size_t Padded(size_t bytes) const;

 private:
  Runtime& runtime_;
  bool planning_ = false;
  char* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  Places places_;  // in the arena, or of the plan
  std::set<void*> taken_;
};

}  // namespace paracord::cuda
