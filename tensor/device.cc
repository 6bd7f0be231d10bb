#include "tensor/device.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda_plugin.h"

namespace paracord {
namespace {

constexpr std::string_view kCuda = "cuda:";
constexpr std::string_view kPjrt = "pjrt:";

// Makes CUDA load all kernels at once. With lazy loading the first launch of a kernel may wait
// until the GPU is idle, and several GPUs in an all-reduce would then wait for each other forever.
// CUDA reads the variable when it is first used.
void LoadAllCode() { setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

// Counts the GPUs. With `together`, several GPUs also need NCCL.
absl::StatusOr<int> CountDevices(bool together) {
  if (together) LoadAllCode();
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  ASSIGN_OR_RETURN(const int count, CudaDeviceCount(*plugin));
  if (together && count > 1) RETURN_IF_ERROR(CheckNccl(*plugin));
  return count;
}

}  // namespace

absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn) {
  if (text == "cpu") return text;
  if (text.starts_with(kPjrt) && text.size() > kPjrt.size()) return text;
  uint32_t index = 0;
  const bool training = use == DeviceFor::kTraining;
  const bool all = text == kAllGpus;
  if (all && !training) {
    return absl::InvalidArgumentError("--device cuda:all is for workers that train");
  }
  const bool named = all || (text.starts_with(kCuda) && absl::SimpleAtoi(text.substr(5), &index) &&
                             text == absl::StrCat(std::string(kCuda), index));
  if (!named && text != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--device: \"", text,
                                                   "\" is none of auto, cpu, cuda:N, ",
                                                   training ? "cuda:all, " : "", "pjrt:PATH"));
  }
  const absl::StatusOr<int> count = CountDevices(all);
  const std::string why(count.status().message());
  if (named && !count.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--device ", text, ": ", why));
  }
  if (named && index >= static_cast<uint32_t>(*count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", text, ": there are ", *count, " GPUs, the first is cuda:0"));
  }
  if (all && *count > 1) return text;
  if (count.ok()) {
    return absl::StrCat("cuda:", named ? index : turn % static_cast<uint32_t>(*count));
  }
  if (note != nullptr) *note = absl::StrCat("computing on the CPU: ", why);
  return std::string("cpu");
}

absl::StatusOr<std::unique_ptr<Ops>> MakeOps(const std::string& device, int threads) {
  if (device == "cpu") return MakeCpuOps(std::max(threads, 1));
  uint32_t index = 0;
  if (!device.starts_with(kCuda) || !absl::SimpleAtoi(device.substr(5), &index)) {
    return absl::InvalidArgumentError(absl::StrCat("no device \"", device, "\""));
  }
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  return MakeCudaOps(*plugin, static_cast<int>(index));
}

absl::StatusOr<std::vector<Replica>> MakeAllGpus() {
  LoadAllCode();
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  ASSIGN_OR_RETURN(const int count, CudaDeviceCount(*plugin));
  return MakeCudaGroup(*plugin, count);
}

}  // namespace paracord
