// How many threads tests of the CPU's operations may take.
#pragma once

namespace paracord {

#ifdef __SANITIZE_THREAD__
constexpr int kThreadsMost = 1;  // it does not see how libgomp's threads wait for each other
#else
constexpr int kThreadsMost = 2;
#endif

}  // namespace paracord
