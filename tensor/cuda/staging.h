// Page-locked host memory, copied by the GPU itself (DMA): staging buffers for copies of pageable
// memory, and memory locked by its owner. Steps of equal sizes get equal buffers at equal
// addresses. Owned by the engine; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

class Staging {
 public:
  explicit Staging(Runtime& runtime) : runtime_(runtime) {}
  // No copy may be in flight.
  ~Staging();

  // Returns a staging buffer, valid until Reset, or null if page-locked memory is used up; copies
  // then go without staging.
  void* Take(size_t bytes);
  // Takes all buffers back; no copy may be in flight.
  void Reset();

  // Locks memory that stays mapped for this object's life, if it begins at a page; its pages hold
  // nothing else. Memory that cannot be locked is remembered, and tried only once.
  void PageLock(const void* memory, size_t bytes);
  bool IsPageLocked(const void* memory, size_t bytes) const;

 private:
  struct Chunk {
    char* memory = nullptr;
    size_t bytes = 0, used = 0;
  };
  struct Range {
    size_t bytes = 0;
    bool page_locked = false;  // false: locking failed
    bool ours = false;         // unlocked by this object
  };
  void FreeChunks();

  Runtime& runtime_;
  bool complained_ = false;
  std::vector<Chunk> chunks_;
  size_t all_ = 0;     // bytes of all chunks
  size_t wanted_ = 0;  // bytes used by the last step
  std::map<const char*, Range> ranges_;
};

}  // namespace paracord::cuda
