// Memory of the host that a GPU copies from and to by itself (pinned): buffers through which copies
// of other memory go, and what the owner of memory has pinned. Steady steps find the buffers of the
// steps before, at the same addresses. Owned by the engine; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

class Staging {
 public:
  explicit Staging(Runtime& runtime) : runtime_(runtime) {}
  // Nothing may be under way.
  ~Staging();

  // Until Reset. Null: there is none (any more), and copies have to go without.
  void* Take(size_t bytes);
  // Nothing is under way.
  void Reset();

  // Stays as long as this does, and so do the pages it lies in: where it begins with one, it is
  // pinned. What is not, or cannot be, is remembered, too.
  void Pin(const void* memory, size_t bytes);
  bool IsPinned(const void* memory, size_t bytes) const;

 private:
  struct Chunk {
    char* memory = nullptr;
    size_t bytes = 0, used = 0;
  };
  struct Range {
    size_t bytes = 0;
    bool pinned = false;  // else it could not be
    bool ours = false;    // to undo
  };
  void FreeChunks();

  Runtime& runtime_;
  bool complained_ = false;
  std::vector<Chunk> chunks_;
  size_t all_ = 0;     // bytes of the chunks
  size_t wanted_ = 0;  // by the step before
  std::map<const char*, Range> ranges_;
};

}  // namespace paracord::cuda
