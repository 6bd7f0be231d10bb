// Named places where a test can make a process die, stop or fail. Empty in release builds.
//   FAILPOINT("ps.push.applied");               kill or stall here
//   FAILPOINT_STATUS("files.sync");             may return an error status from the function
// Set by the environment: PARACORD_FAILPOINTS="ps.push.applied=kill@3;files.sync=error"
// (kill, stop, stall:<ms>, error; @n: only at the n-th time it is reached).
#pragma once

#include "absl/status/status.h"

namespace paracord {

#ifdef PARACORD_FAILPOINTS
absl::Status HitFailpoint(const char* name);
#define FAILPOINT(name) ((void)::paracord::HitFailpoint(name))
#define FAILPOINT_STATUS(name)                                   \
  do {                                                           \
    absl::Status failpoint_status = ::paracord::HitFailpoint(name); \
    if (!failpoint_status.ok()) return failpoint_status;         \
  } while (false)
#else
#define FAILPOINT(name) ((void)0)
#define FAILPOINT_STATUS(name) ((void)0)
#endif

}  // namespace paracord
