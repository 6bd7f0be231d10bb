// A process that loses its GPU. What the process had there is gone for good, so that no test of
// gpu_test can do it by itself: one starts gpu_test again with kLoseDevice alone. Used in main's
// thread.
#pragma once

namespace paracord {

inline constexpr char kLoseDevice[] = "--lose-device";  // of gpu_test

// Trains, lets a kernel write where there is nothing, and trains on. As of a worker whose device is
// lost, its exit code; 1: something is not as it should be, which is printed.
int LoseDevice();

}  // namespace paracord
