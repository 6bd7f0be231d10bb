// The CUDA engine on the processor; each instance orders its streams differently.
#include <atomic>
#include <catch2/catch.hpp>
#include <string_view>
#include <utility>

#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

constexpr size_t kMemoryMax = size_t{64} << 30;  // like a GPU's

std::atomic<int64_t> graph_launches = 0;

cuda::HostOptions NextOptions() {
  static uint64_t seed = 0;
  cuda::HostOptions options;
  options.seed = ++seed;
  options.memory_bytes_max = kMemoryMax;
  options.called = [](std::string_view name) {
    if (name == "cudaGraphLaunch") ++graph_launches;
  };
  options.at_end = [](int64_t, const std::string& wrong) {
    if (!wrong.empty()) FAIL_CHECK(wrong);
  };
  return options;
}

}  // namespace

std::optional<int64_t> GraphLaunches() { return graph_launches; }

std::unique_ptr<Ops> CudaUnderTest(bool convolutions) {
  cuda::HostOptions options = NextOptions();
  options.convolutions = convolutions;
  return cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
}

std::vector<Replica> GroupUnderTest(size_t devices) {
  const auto nccl = std::make_shared<cuda::HostGroup>(devices);
  std::vector<Replica> group;
  for (size_t rank = 0; rank < devices; ++rank) {
    cuda::HostOptions options = NextOptions();
    options.group = nccl;
    options.rank = rank;
    group.push_back(cuda::MakeReplica(cuda::MakeHostRuntime(std::move(options))).value());
  }
  return group;
}

std::unique_ptr<Ops> TestOps() { return CudaUnderTest(/*convolutions=*/true); }

}  // namespace paracord
