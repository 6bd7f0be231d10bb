// A Runtime that detects repeated steps and launches each as one CUDA graph. A step is the sequence
// of calls between two of Synchronize or AwaitEvent. At first its calls are made at once and
// recorded. When a sequence has come twice it is captured as a graph. When a later step begins like
// a graph, its calls are only compared; if it ends like the graph too, the graph is launched,
// otherwise the calls compared so far are made and the step goes on call by call. Callers need not
// announce that a step repeats. Steps with pageable memory, timed events, all-reduces or an error
// are never captured. Numbers that vary between steps must be in memory, not in kernel arguments.
// Used by one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

std::unique_ptr<Runtime> MakeReplay(std::unique_ptr<Runtime> runtime);

}  // namespace paracord::cuda
