// While an object of this class lives, the float arithmetic of the thread that made the object
// flushes denormal numbers to zero (on x86-64 and arm64). The moments that an optimizer keeps of
// weights without gradients decay into denormal numbers, which make arithmetic a hundred times
// slower. Optimizers and Keras models compute under FlushDenormals on every thread.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paracord {

class FlushDenormals {
 public:
  FlushDenormals() : before_(Get()) { Set(before_ | kFlush); }
  ~FlushDenormals() { Set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // FTZ (results) and DAZ (operands) of MXCSR
  static uint64_t Get() { return _mm_getcsr(); }
  static void Set(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ
  static uint64_t Get() {
    uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void Set(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kFlush = 0;
  static uint64_t Get() { return 0; }
  static void Set(uint64_t) {}
#endif

  const uint64_t before_;
};

}  // namespace paracord
