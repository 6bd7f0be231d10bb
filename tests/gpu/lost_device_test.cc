#include "tests/gpu/lost_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <climits>
#include <cstdio>
#include <string>
#include <utility>

#include "common/exit_code.h"
#include "keras/build.h"
#include "tensor/device.h"
#include "tests/keras/model_testing.h"
#include "worker/device_watch.h"

namespace paracord {

int LoseDevice() {
  const Batch schema = SchemaOf({5}, {3});
  const Job job = JobFor(SequentialJson({LayerJson("Dense", {{"units", 3}})}), "mse", 4);
  std::unique_ptr<Ops> ops = TestOps();
  Ops& device = *ops;
  std::string why;
  const auto program = WatchDevice(BuildKerasProgram(job, schema, std::move(ops)).value(),
                                   [&why](const std::string& lost) { why = lost; });
  Variables variables(*program);
  variables.Randomise(1);
  const auto step = [&] {
    return program
        ->ComputeGradients(RandomBatch(schema, 4, 0, 1), 1, variables.value_spans(),
                           variables.gradient_spans())
        .status();
  };
  for (int i = 0; i < 4; ++i) {  // also as a CUDA graph
    if (const absl::Status status = step(); !status.ok()) {
      std::printf("before: %s\n", status.ToString().c_str());
      return static_cast<int>(ExitCode::kFailed);
    }
  }
  device.Fill(1000, 1, reinterpret_cast<float*>(uintptr_t{256}));  // NOLINT: nobody's
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = step();
    std::printf("after: %s\n", status.ToString().c_str());
    if (!absl::IsDataLoss(status)) return static_cast<int>(ExitCode::kFailed);
  }
  std::printf("lost: %s\n", why.c_str());
  return static_cast<int>(why.empty() ? ExitCode::kFailed : ExitCode::kDeviceFailed);
}

namespace {

TEST_CASE("a GPU whose memory was misused is lost, and its process ends as the worker's does") {
  char self[PATH_MAX] = {};
  REQUIRE(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
  FILE* const pipe =
      popen(("timeout 120 " + std::string(self) + " " + kLoseDevice + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, got);
  const int status = pclose(pipe);
  INFO(text);
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::kDeviceFailed));
  CHECK(text.find("cudaErrorIllegalAddress") != std::string::npos);
}

}  // namespace
}  // namespace paracord
