// Named places in the code, at which a test makes this process die, stop, wait or fail.
//   FAILPOINT("ps.push.applied");               may kill, stop or stall the process here
//   FAILPOINT_STATUS("files.sync");             may also return an error from the function
// An environment variable of the process arms failpoints, and gives each an action:
//   PARACORD_FAILPOINTS="ps.push.applied=kill@3;files.sync=error"
// The actions are kill (SIGKILL), stop (SIGSTOP), stall:<ms> (the thread sleeps) and error. An
// action with @n happens only the n-th time that the process reaches the failpoint. Every build has
// failpoints: while none is armed, reaching a failpoint costs one relaxed load, and its name is not
// computed. Daemons log a warning when failpoints are armed.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paracord {

// The environment variable that arms failpoints.
inline constexpr char kFailpointsVariable[] = "PARACORD_FAILPOINTS";

// Whether any failpoint is armed. Set once, from the environment, before main.
// Constant-initialised, because code that runs before main may reach a failpoint.
extern std::atomic<bool> failpoints_armed;

// Returns the value of the environment variable; "" if the variable is not set.
std::string ArmedFailpoints();

// Carries out the action of the failpoint `name`, if the failpoint is armed. Returns INTERNAL for
// the action "error", otherwise OK. Thread-safe.
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
