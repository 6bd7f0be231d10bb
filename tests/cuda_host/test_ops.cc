// The CUDA engine on the processor, each with another order of its streams.
#include <catch2/catch.hpp>

#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/worker/model_testing.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace paracord {

std::unique_ptr<Ops> CudaUnderTest(bool convolutions) {
  static uint64_t seed = 0;
  cuda::HostOptions options;
  options.seed = ++seed;
  options.convolutions = convolutions;
  options.at_end = [](int64_t, const std::string& wrong) {
    if (!wrong.empty()) FAIL_CHECK(wrong);
  };
  return cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
}

std::unique_ptr<Ops> TestOps() { return CudaUnderTest(/*convolutions=*/true); }

}  // namespace paracord
