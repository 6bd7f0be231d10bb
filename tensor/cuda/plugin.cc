// The C interface of the plug-in (tensor/cuda_plugin.h).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "common/status_macros.h"
#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/toolkit_library.h"
#include "tensor/cuda/toolkit_nccl.h"
#include "tensor/cuda/toolkit_runtime.h"
#include "tensor/cuda_plugin.h"

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

// Reads an environment variable that turns a feature off.
bool Wanted(const char* setting) {
  const char* const value = std::getenv(setting);
  return value == nullptr || std::string_view(value) != "off";
}
bool GraphsWanted() { return Wanted("PARACORD_CUDA_GRAPHS"); }
ToolkitOptions Options() { return {.deterministic = Wanted("PARACORD_CUDA_DETERMINISTIC")}; }

absl::StatusOr<std::unique_ptr<Ops>> OpsOf(int device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, MakeToolkitRuntime(device, Options()));
  return MakeOps(std::move(runtime), GraphsWanted());
}

void* NewOps(int device, char* why, size_t why_size) {
  absl::StatusOr<std::unique_ptr<Ops>> ops = OpsOf(device);
  if (ops.ok()) return ops->release();
  Write(ops.status(), why, why_size);
  return nullptr;
}

absl::Status FillGroup(std::span<const int> devices, Replica* replicas) {
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Runtime>> runtimes,
                   MakeToolkitGroup(devices, Options()));
  for (size_t i = 0; i < runtimes.size(); ++i) {
    ASSIGN_OR_RETURN(replicas[i], MakeReplica(std::move(runtimes[i]), GraphsWanted()));
  }
  return absl::OkStatus();
}

int NewGroup(const int* devices, int count, Replica* replicas, char* why, size_t why_size) {
  const absl::Status status = FillGroup({devices, static_cast<size_t>(count)}, replicas);
  if (!status.ok()) Write(status, why, why_size);
  return status.ok() ? 0 : -1;
}

int CheckNccl(const char* nccl, char* why, size_t why_size) {
  const absl::Status status = OpenNccl(nccl == nullptr ? kNccl : nccl).status();
  if (!status.ok()) Write(status, why, why_size);
  return status.ok() ? 0 : -1;
}

int CheckLibraries(const char* cublas, const char* cudnn, char* why, size_t why_size) {
  const absl::Status status =
      OpenLibraries(cublas == nullptr ? kCublas : cublas, cudnn == nullptr ? kCudnn : cudnn)
          .status();
  if (!status.ok()) Write(status, why, why_size);
  return status.ok() ? 0 : -1;
}

const CudaPluginTable kTable = {kCudaPluginVersion, DeviceCount, NewOps,
                                CheckLibraries,     NewGroup,    CheckNccl};

}  // namespace
}  // namespace paracord::cuda

extern "C" __attribute__((visibility("default"))) const paracord::CudaPluginTable*
paracord_cuda_plugin() {
  return &paracord::cuda::kTable;
}
