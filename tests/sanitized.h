// Sanitizers make a test 3 to 30 times as slow. A test that repeats one path with other values
// repeats it less often under them, unless PARACORD_ALL_REPETITIONS is set (tests/run --slow).
#pragma once

#include <cstdlib>

namespace paracord {

// Whether a test should save time because a sanitizer watches it.
inline bool Sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::getenv("PARACORD_ALL_REPETITIONS") == nullptr;
#else
  return false;
#endif
}

template <class T>
T UnderSanitizers(T sanitized, T otherwise) {
  return Sanitized() ? sanitized : otherwise;
}

}  // namespace paracord
