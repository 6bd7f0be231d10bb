// The tests of the CUDA engine on a GPU. Without one they are skipped, and their number is said.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "tests/cuda_host/cuda_under_test.h"
#include "tests/worker/model_testing.h"
#include "worker/ops/device.h"

namespace paracord {

std::unique_ptr<Ops> CudaUnderTest(bool) { return MakeOps("cuda:0", 1).value(); }
std::optional<int64_t> GraphLaunches() { return std::nullopt; }
std::unique_ptr<Ops> TestOps() { return CudaUnderTest(true); }

}  // namespace paracord

int main(int argc, char** argv) {
  Catch::Session session;
  const auto device = paracord::ChooseDevice("cuda:0", nullptr);
  if (!device.ok()) {
    std::printf("skipped: %zu test cases: %s\n",
                Catch::getRegistryHub().getTestCaseRegistry().getAllTests().size(),
                std::string(device.status().message()).c_str());
    return 0;
  }
  const int code = session.run(argc, argv);
  std::fflush(nullptr);
  _exit(code);
}
