// Ends memory of operator new at an unreadable page, so that reads beyond the end crash. A separate
// program, like counted_malloc.h.
#pragma once

namespace paracord {

// Guards allocations of 64 bytes to 16 MiB of all threads during its lifetime. Freed memory is
// unreadable, too. At most one object may exist.
class GuardedNew {
 public:
  GuardedNew();
  ~GuardedNew();
  GuardedNew(const GuardedNew&) = delete;
  GuardedNew& operator=(const GuardedNew&) = delete;
};

}  // namespace paracord
