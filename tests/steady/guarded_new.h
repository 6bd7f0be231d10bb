// Memory of operator new that ends where none can be read, so that what reads on stops there. A
// program of its own, as counted_malloc.h.
#pragma once

namespace paracord {

// Of all threads while it lives, for 64 bytes to 16 MiB; what is freed cannot be read either. One
// at a time.
class GuardedNew {
 public:
  GuardedNew();
  ~GuardedNew();
  GuardedNew(const GuardedNew&) = delete;
  GuardedNew& operator=(const GuardedNew&) = delete;
};

}  // namespace paracord
