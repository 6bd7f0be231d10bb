// Runs the tests of the CUDA engine on a GPU. Without a GPU, prints how many tests are skipped.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/cuda_plugin.h"
#include "tensor/device.h"
#include "tests/cuda_host/cuda_under_test.h"
#include "tests/gpu/lost_device.h"
#include "tests/keras/model_testing.h"

namespace paracord {

std::unique_ptr<Ops> CudaUnderTest(bool) { return MakeOps("cuda:0", 1).value(); }
std::optional<int64_t> GraphLaunches() { return std::nullopt; }
std::unique_ptr<Ops> TestOps() { return CudaUnderTest(true); }

std::vector<Replica> GroupUnderTest(size_t devices) {
  const CudaPluginTable& plugin = *LoadCudaPlugin(CudaPluginPath()).value();
  if (static_cast<size_t>(CudaDeviceCount(plugin).value()) < devices) return {};
  if (const absl::Status nccl = CheckNccl(plugin); !nccl.ok()) {
    WARN("not checked: " << nccl.message());
    return {};
  }
  std::vector<int> numbers(devices);
  std::iota(numbers.begin(), numbers.end(), 0);
  return MakeCudaGroup(plugin, numbers).value();
}

}  // namespace paracord

int main(int argc, char** argv) {
  // As for `cuda:all`: lazily loaded code could wait for a GPU that waits for other GPUs.
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  // Flushes each line, so that no output is lost, however the program ends.
  (void)std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Catch::Session session;
  const auto device = paracord::ChooseDevice("cuda:0", paracord::DeviceFor::kOneModel, nullptr);
  if (!device.ok()) {
    std::printf("skipped: %zu test cases: %s\n",
                Catch::getRegistryHub().getTestCaseRegistry().getAllTests().size(),
                std::string(device.status().message()).c_str());
    return 0;
  }
  const bool lose = argc == 2 && std::string_view(argv[1]) == paracord::kLoseDevice;
  const int code = lose ? paracord::LoseDevice() : session.run(argc, argv);
  std::fflush(nullptr);
  // Tools such as compute-sanitizer write their report at a normal exit.
  if (std::getenv("PARACORD_GPU_TEST_EXIT") != nullptr) std::exit(code);
  _exit(code);
}
