// A block of a kernel's grid, as the processor runs it.
#pragma once

#include <cstdint>

namespace paracord::cuda {

struct HostBlock {
  uint32_t blocks_x = 1, x = 0, y = 0;
  bool backwards = false;  // the order of its threads
};
using HostKernel = void (*)(const void* args, const HostBlock& block);

}  // namespace paracord::cuda
