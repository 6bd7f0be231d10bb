// Makes memory of operator new end at an unreadable page, so that reads beyond it crash. It is a
// program of its own, like counted_malloc.h.
#pragma once

namespace paracord {

// While it lives, guards allocations of 64 bytes to 16 MiB in all threads; freed memory cannot be
// read either. At most one exists at a time.
class GuardedNew {
 public:
  GuardedNew();
  ~GuardedNew();
  GuardedNew(const GuardedNew&) = delete;
  GuardedNew& operator=(const GuardedNew&) = delete;
};

}  // namespace paracord
