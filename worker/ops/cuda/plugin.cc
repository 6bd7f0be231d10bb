// The plug-in's C interface (worker/ops/cuda_plugin.h).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "worker/ops/cuda/cuda_ops.h"
#include "worker/ops/cuda/toolkit_library.h"
#include "worker/ops/cuda/toolkit_runtime.h"
#include "worker/ops/cuda_plugin.h"

namespace paracord::cuda {
namespace {

void Write(const absl::Status& status, char* why, size_t why_size) {
  const std::string text(status.message());
  const size_t size = std::min(text.size(), why_size - 1);
  std::memcpy(why, text.data(), size);
  why[size] = '\0';
}

int DeviceCount(char* why, size_t why_size) {
  const absl::StatusOr<int> count = CountDevices();
  if (count.ok()) return *count;
  Write(count.status(), why, why_size);
  return -1;
}

void* NewOps(int device, char* why, size_t why_size) {
  absl::StatusOr<std::unique_ptr<Runtime>> runtime = MakeToolkitRuntime(device, {});
  absl::Status status = runtime.status();
  if (status.ok()) {
    const char* const graphs = std::getenv("PARACORD_CUDA_GRAPHS");
    absl::StatusOr<std::unique_ptr<Ops>> ops =
        MakeOps(*std::move(runtime), graphs == nullptr || std::string_view(graphs) != "off");
    if (ops.ok()) return ops->release();
    status = ops.status();
  }
  Write(status, why, why_size);
  return nullptr;
}

int CheckLibraries(const char* cublas, const char* cudnn, char* why, size_t why_size) {
  const absl::Status status =
      OpenLibraries(cublas == nullptr ? kCublas : cublas, cudnn == nullptr ? kCudnn : cudnn)
          .status();
  if (!status.ok()) Write(status, why, why_size);
  return status.ok() ? 0 : -1;
}

const CudaPluginTable kTable = {kCudaPluginVersion, DeviceCount, NewOps, CheckLibraries};

}  // namespace
}  // namespace paracord::cuda

extern "C" __attribute__((visibility("default"))) const paracord::CudaPluginTable*
paracord_cuda_plugin() {
  return &paracord::cuda::kTable;
}
