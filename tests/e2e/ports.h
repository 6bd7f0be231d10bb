// Ports for programs of a test that are told a first port and take those after it.
#pragma once

namespace paracord::e2e {

inline constexpr int kPortsOfTest = 10;

// Returns the first of kPortsOfTest neighbouring TCP ports that no test takes beside this one,
// below those that the kernel gives out. They are this process' until it ends; later calls return
// the same ports. Used in the main thread.
int FirstPort();

}  // namespace paracord::e2e
