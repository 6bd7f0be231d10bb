// One block of a kernel's grid, as the processor runs it.
#pragma once

#include <cstdint>

namespace paracord::cuda {

struct HostBlock {
  uint32_t blocks_x = 1, x = 0, y = 0;
  bool backwards = false;  // runs the threads in reverse order
};
using HostKernel = void (*)(const void* args, const HostBlock& block);

}  // namespace paracord::cuda
