// Page-locked host memory, which the GPU copies itself (DMA): staging buffers for copies, and a
// list of other host memory that is page-locked. Calls of Take with equal sizes after each Reset
// get equal addresses once all buffers fit in one chunk, as graphs need (replay.h). Owned by the
// engine; used by one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

class Staging {
 public:
  explicit Staging(Runtime& runtime) : runtime_(runtime) {}
  // Frees the buffers and unlocks memory; no copy may be in flight.
  ~Staging();

  // Returns a staging buffer, valid until Reset. Returns null if the buffers would exceed 1 GiB or
  // the system locks no more memory; the caller then copies without staging.
  void* Take(size_t bytes);
  // Ends the use of all buffers from Take; no copy may be in flight.
  void Reset();

  // Page-locks memory that stays mapped for this object's life, if the memory begins a page. The
  // memory's pages must hold nothing else. A second call for an address does nothing.
  void PageLock(const void* memory, size_t bytes);
  bool IsPageLocked(const void* memory, size_t bytes) const;

 private:
  struct Chunk {
    char* memory = nullptr;
    size_t bytes = 0, used = 0;
  };
  struct Range {
    size_t bytes = 0;
    bool page_locked = false;  // false: the memory could not be locked
    bool ours = false;         // this object has locked the memory and unlocks it at its end
  };
  void FreeChunks();

  Runtime& runtime_;
  bool complained_ = false;
  std::vector<Chunk> chunks_;
  size_t all_ = 0;     // bytes of all chunks
  size_t wanted_ = 0;  // bytes in use at the last Reset that had several chunks
  std::map<const char*, Range> ranges_;
};

}  // namespace paracord::cuda
