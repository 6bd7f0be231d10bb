#include "worker/ops/device.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/cuda_plugin.h"

namespace paracord {
namespace {

constexpr std::string_view kCuda = "cuda:";

absl::StatusOr<int> CountDevices() {
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  return CudaDeviceCount(*plugin);
}

}  // namespace

absl::StatusOr<std::string> ChooseDevice(const std::string& text, std::string* note) {
  if (text == "cpu") return text;
  uint32_t index = 0;
  const bool named = text.starts_with(kCuda) && absl::SimpleAtoi(text.substr(5), &index);
  if (!named && text != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: \"", text, "\" is none of auto, cpu, cuda:N"));
  }
  const absl::StatusOr<int> count = CountDevices();
  const std::string why(count.status().message());
  if (named && !count.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--device ", text, ": ", why));
  }
  if (named && index >= static_cast<uint32_t>(*count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", text, ": there are ", *count, " GPUs, the first is cuda:0"));
  }
  if (count.ok()) return absl::StrCat("cuda:", index);
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

}  // namespace paracord
