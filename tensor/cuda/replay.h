// A Runtime that detects repeated steps and launches each as a CUDA graph. A step is the sequence
// of calls between two calls of Synchronize or AwaitEvent. At first the calls are made at once and
// recorded. When a sequence has occurred twice among recent steps, it is captured as a graph. While
// a later step's calls are those with which a graph begins, the calls are only compared with the
// graph's. If the step ends where the graph ends, the graph is launched; otherwise the compared
// calls are made and the step goes on call by call. Callers need not announce repetitions. Steps
// with pageable memory, timed events, all-reduces, an error, fewer than 8 calls or more than 16 MiB
// of copies are never captured. Numbers that vary between steps must be in memory, not in kernel
// arguments. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/cuda/runtime.h"

namespace paracord::cuda {

std::unique_ptr<Runtime> MakeReplay(std::unique_ptr<Runtime> runtime);

}  // namespace paracord::cuda
