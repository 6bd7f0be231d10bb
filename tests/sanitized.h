// Sanitizers make a test 3 to 30 times as slow. A test that repeats one path with other values
// repeats it less often under them.
#pragma once

namespace paracord {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

template <class T>
constexpr T UnderSanitizers(T sanitized, T otherwise) {
  return kSanitized ? sanitized : otherwise;
}

}  // namespace paracord
