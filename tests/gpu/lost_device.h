// A process that loses its GPU. Its CUDA context is then unusable for good, so a test starts
// gpu_test again with kLoseDevice only. Main thread only.
#pragma once

namespace paracord {

inline constexpr char kLoseDevice[] = "--lose-device";  // flag of gpu_test

// Trains, makes a kernel write to an invalid address, and trains on. Returns the exit code of a
// worker with a lost device, or 1 after printing what is wrong.
int LoseDevice();

}  // namespace paracord
