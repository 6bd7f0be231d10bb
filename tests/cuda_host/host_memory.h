// A device's memory on the processor. Allocations are guarded and filled with a pattern that no
// computation gives, to find accesses out of bounds, after a free, or of unwritten memory. Owned by
// HostRuntime; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace paracord::cuda {

class HostMemory {
 public:
  ~HostMemory();
  void* Allocate(size_t bytes);
  bool Free(void* memory);  // false: it does not exist, or is freed already
  size_t live() const { return live_; }
  // From now on, only the used parts of the allocation may be accessed.
  void Part(void* allocation);
  void Use(void* part, size_t bytes);
  void Unuse(void* part);

  // True if [at, at + bytes) is within a live allocation and, with `written`, was written.
  // Otherwise records the error.
  bool Allows(const void* at, size_t bytes, bool written, const char* who);
  // The first error; empty if there is none.
  const std::string& wrong() const { return wrong_; }
  void Note(const std::string& wrong) {
    if (wrong_.empty()) wrong_ = wrong;
  }
  // Makes ASan forbid or allow accesses to device memory by the host's code.
  void Show(bool to_host_code);

 private:
  struct Allocation {
    char* memory = nullptr;  // with guards at both ends
    char* begin = nullptr;
    size_t bytes = 0;
    bool lives = true;
    bool parted = false;  // only its parts may be accessed
  };
  static constexpr size_t kGuard = 64;
  const Allocation* Find(const char* at);
  const Allocation* FindIn(const std::map<const char*, Allocation>& map, const char* at) const;
  void CheckGuards(const Allocation& allocation);
  // Record an access that is not allowed, and return false. Allows runs for every access of a
  // kernel: with the texts inside, ASan would set up a frame for them each time.
  [[gnu::noinline]] bool Refuse(const char* who, const char* why);
  [[gnu::noinline]] bool RefuseBeyond(const char* who, const Allocation& allocation);
  [[gnu::noinline]] bool RefuseNever(const char* who, const Allocation& allocation, const char* at);

  std::map<const char*, Allocation> allocations_;  // keyed by begin; freed ones stay
  std::map<const char*, Allocation> parts_;  // parts of allocations, until later parts replace them
  const Allocation* last_[4] = {};
  size_t next_ = 0, live_ = 0;
  std::string wrong_;
};

}  // namespace paracord::cuda
