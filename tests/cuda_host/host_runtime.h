// The table of CUDA's calls on the processor. Streams are queues that run when somebody waits, in
// an order that a seed chooses as far as streams and events allow; products and convolutions are
// done as cuBLAS and cuDNN document their layouts; every access of a kernel is looked at. One
// thread each. What went wrong is an error of Synchronize and, at the end, handed to `at_end`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/cuda/runtime.h"
#include "tests/cuda_host/host_group.h"

namespace paracord::cuda {

struct HostOptions {
  uint64_t seed = 0;
  int64_t fail_call = -1;  // the call of this number fails
  bool sticky = false;     // and so do all after it
  size_t memory_bytes_max = SIZE_MAX;
  size_t code_bytes = 0;             // that code may take later
  std::shared_ptr<HostGroup> group;  // shared by its ranks
  size_t rank = 0;
  // What a convolution asks for to work in, if it may; null: always the same.
  std::function<size_t(int64_t batch)> workspace;
  bool convolutions = true;                      // false: cuDNN has no engine
  Directions directions;                         // that it has engines for
  Directions computes;                           // that it does not refuse after all
  bool pinned = true;                            // false: no memory of the host can be pinned
  bool bfloat16 = true;                          // false: a GPU that is too old for it and TF32
  bool graphs = true;                            // false: nothing can be captured
  std::function<void(const char* name)> called;  // each call
  // What is done, in the order in which that happens; of copies, with the bytes.
  std::function<void(const char* what, size_t bytes)> done;
  // The number of calls; what was wrong: errors of access, or something left undestroyed.
  std::function<void(int64_t calls, const std::string& wrong)> at_end;
};

std::unique_ptr<Runtime> MakeHostRuntime(HostOptions options);

}  // namespace paracord::cuda
