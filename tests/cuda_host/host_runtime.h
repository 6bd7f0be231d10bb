// The Runtime on the processor. Streams are queues that run when a caller waits, in an order that a
// seed chooses within the constraints of streams and events. Products and convolutions use the
// documented layouts of cuBLAS and cuDNN, and every access of a kernel is checked. Used by one
// thread. Errors appear in Synchronize and, at the end, in `at_end`.
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
  int64_t fail_call = -1;  // the call with this number fails
  bool sticky = false;     // all later calls fail as well
  size_t memory_bytes_max = SIZE_MAX;
  size_t code_bytes = 0;             // memory reserved for code that is loaded later
  std::shared_ptr<HostGroup> group;  // shared by all ranks of the group
  size_t rank = 0;
  // The workspace that a convolution asks for if allowed; null: a constant.
  std::function<size_t(int64_t batch)> workspace;
  bool convolutions = true;                      // false: cuDNN has no engine
  Directions directions;                         // the directions that cuDNN has engines for
  Directions computes;                           // directions that cuDNN computes without refusing
  bool page_locks = true;                        // false: host memory cannot be page-locked
  bool bfloat16 = true;                          // false: a GPU too old for bfloat16 and TF32
  bool graphs = true;                            // false: capturing fails
  std::function<void(const char* name)> called;  // called with each call's name
  // Called with each task as it runs. A copy has its number of bytes.
  std::function<void(const char* what, size_t bytes)> done;
  // Called at the end with the number of calls, and the first wrong access or a list of leaked
  // objects.
  std::function<void(int64_t calls, const std::string& wrong)> at_end;
};

// Tests that fail each call of a run in turn go on by this many calls. Under ASan, where a run
// takes ten times as long, two of three calls are left to the builds without it.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int64_t kFailedCallStep = 3;
#else
inline constexpr int64_t kFailedCallStep = 1;
#endif

std::unique_ptr<Runtime> MakeHostRuntime(HostOptions options);

}  // namespace paracord::cuda
