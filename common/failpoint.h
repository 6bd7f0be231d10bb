// Named places in the code where a test makes this process die, stop, wait or fail.
//   FAILPOINT("ps.push.applied");               may kill, stop or stall the process here
//   FAILPOINT_STATUS("files.sync");             may also return an error from the function
// An environment variable of the process arms them:
//   PARACORD_FAILPOINTS="ps.push.applied=kill@3;files.sync=error"
// (kill, stop, stall:<ms>, error; @n: only the n-th time that the place is reached). Every build
// has them: an unarmed failpoint costs one relaxed load, and its name is not computed. Daemons say
// in their log that failpoints are armed, and `paracord doctor` calls the setting wrong.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

// The environment variable that arms failpoints.
inline constexpr char kFailpointsVariable[] = "PARACORD_FAILPOINTS";

// Set once, before main, from the environment. Constant-initialised: code that runs before main may
// meet a failpoint.
extern std::atomic<bool> failpoints_armed;

// Returns the text of kFailpointsVariable, for a message; empty if no failpoint is armed.
std::string ArmedFailpoints();

// Executes the armed action, if any, of the failpoint `name`. Thread-safe.
absl::Status HitFailpoint(std::string_view name);

#define FAILPOINT(name)                                                            \
  do {                                                                             \
    if (::paracord::failpoints_armed.load(std::memory_order_relaxed)) [[unlikely]] \
      (void)::paracord::HitFailpoint(name);                                        \
  } while (false)
#define FAILPOINT_STATUS(name)                                                       \
  do {                                                                               \
    if (::paracord::failpoints_armed.load(std::memory_order_relaxed)) [[unlikely]] { \
      absl::Status failpoint_status = ::paracord::HitFailpoint(name);                \
      if (!failpoint_status.ok()) return failpoint_status;                           \
    }                                                                                \
  } while (false)

}  // namespace paracord
