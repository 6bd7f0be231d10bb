// The CUDA engine on the processor, each with another order of its streams.
#include <atomic>
#include <catch2/catch.hpp>
#include <string_view>

#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/worker/model_testing.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace paracord {
namespace {

std::atomic<int64_t> graph_launches = 0;

}  // namespace

std::optional<int64_t> GraphLaunches() { return graph_launches; }

std::unique_ptr<Ops> CudaUnderTest(bool convolutions) {
  static uint64_t seed = 0;
  cuda::HostOptions options;
  options.seed = ++seed;
  options.convolutions = convolutions;
  options.called = [](std::string_view name) {
    if (name == "cudaGraphLaunch") ++graph_launches;
  };
  options.at_end = [](int64_t, const std::string& wrong) {
    if (!wrong.empty()) FAIL_CHECK(wrong);
  };
  return cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
}

std::unique_ptr<Ops> TestOps() { return CudaUnderTest(/*convolutions=*/true); }

}  // namespace paracord
