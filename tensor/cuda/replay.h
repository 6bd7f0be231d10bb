// A table of calls that finds steps that repeat and has the device do them as one (CUDA graphs).
// What is asked until the next Synchronize or AwaitEvent is a step. It is done as it is asked for
// and written down; of a step that came twice a graph is captured, and when it begins again its
// calls are only compared, call by call, and launched together at its end. A step that goes another
// way is done as far as it came and then as before. Nobody need say that a step repeats, and what
// cannot be captured (pageable memory, timed events, sums over a group, an error) never is. What
// varies between steps must be in memory, not in arguments. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

std::unique_ptr<Runtime> MakeReplay(std::unique_ptr<Runtime> runtime);

}  // namespace paracord::cuda
