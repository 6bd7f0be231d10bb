// A device's memory on the processor: allocations of their own, guarded and filled with a pattern
// that no result is, so that what lies outside, was freed or was never written is found. Owned by
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
  bool Free(void* memory);  // false: not there, or freed before
  size_t live() const { return live_; }
  // From now on what lies in the allocation is the parts that are used of it.
  void Part(void* allocation);
  void Use(void* part, size_t bytes);
  void Unuse(void* part);

  // Whether [at, at + bytes) is within an allocation that lives; `written`: and was written. Else
  // notes what is wrong.
  bool Allows(const void* at, size_t bytes, bool written, const char* who);
  // The first thing that was wrong; empty: nothing.
  const std::string& wrong() const { return wrong_; }
  void Note(const std::string& wrong) {
    if (wrong_.empty()) wrong_ = wrong;
  }
  // While the host's code runs, ASan forbids what lies on the device.
  void Show(bool to_host_code);

 private:
  struct Allocation {
    char* memory = nullptr;  // with guards at both ends
    char* begin = nullptr;
    size_t bytes = 0;
    bool lives = true;
    bool parted = false;  // its parts count
  };
  static constexpr size_t kGuard = 64;
  const Allocation* Find(const char* at);
  const Allocation* FindIn(const std::map<const char*, Allocation>& map, const char* at) const;
  void CheckGuards(const Allocation& allocation);

  std::map<const char*, Allocation> allocations_;  // by begin; freed ones stay
  std::map<const char*, Allocation> parts_;        // of those that are parted; as long as there
                                                   // is no other in its place
  const Allocation* last_[4] = {};
  size_t next_ = 0, live_ = 0;
  std::string wrong_;
};

}  // namespace paracord::cuda
