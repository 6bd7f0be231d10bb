// The number of threads that tests of the CPU's operations may use.
#pragma once

namespace paracord {

#ifdef __SANITIZE_THREAD__
constexpr int kThreadsMost = 1;  // TSan does not understand how libgomp's threads synchronise
#else
constexpr int kThreadsMost = 2;
#endif

}  // namespace paracord
