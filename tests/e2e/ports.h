// Reserves TCP ports for programs that take a first port and use its successors.
#pragma once

namespace paracord::e2e {

inline constexpr int kPortsOfTest = 10;

// Returns the first of kPortsOfTest adjacent TCP ports, below the kernel's ephemeral range. No
// other test takes these ports until this process ends. Later calls return the same port. Main
// thread only.
int FirstPort();

}  // namespace paracord::e2e
