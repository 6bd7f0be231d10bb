#include "tensor/device.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda_plugin.h"

namespace paracord {
namespace {

constexpr std::string_view kCuda = "cuda:";
constexpr std::string_view kPjrt = "pjrt:";
constexpr std::string_view kCpus = "cpu:";
constexpr uint32_t kDevicesMax = 256;  // no round has more lanes

// Makes CUDA load all kernels at once. With lazy loading the first launch of a kernel may wait
// until the GPU is idle, and several GPUs in an all-reduce would then wait for each other forever.
// CUDA reads the variable on first use.
void LoadAllCode() { setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

// Counts the GPUs. With `together`, several GPUs also need NCCL.
absl::StatusOr<int> CountDevices(bool together) {
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  ASSIGN_OR_RETURN(const int count, CudaDeviceCount(*plugin));
  if (together && count > 1) RETURN_IF_ERROR(CheckNccl(*plugin));
  return count;
}

absl::Status NoDevice(const std::string& text, DeviceFor use) {
  const bool training = use == DeviceFor::kTraining;
  return absl::InvalidArgumentError(
      absl::StrCat("--device: \"", text, "\" is none of auto, cpu, ", training ? "cpu:N, " : "",
                   "cuda:N, ", training ? "cuda:all, cuda:N,M, " : "", "pjrt:PATH"));
}

// Returns the number if the text is a decimal number without leading zeros.
std::optional<uint32_t> PlainNumber(const std::string& text) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || text != std::to_string(number)) return std::nullopt;
  return number;
}

// Returns the GPUs of "cuda:N,M"; none for any other text.
std::vector<uint32_t> GpusOf(const std::string& text) {
  std::vector<uint32_t> gpus;
  if (!text.starts_with(kCuda)) return gpus;
  for (const std::string& each :
       std::vector<std::string>(absl::StrSplit(text.substr(kCuda.size()), ','))) {
    const std::optional<uint32_t> gpu = PlainNumber(each);
    if (!gpu.has_value()) return {};
    gpus.push_back(*gpu);
  }
  return gpus;
}

absl::Status CheckCpus(const std::string& text, DeviceFor use) {
  const std::optional<uint32_t> count = PlainNumber(text.substr(kCpus.size()));
  if (!count.has_value() || *count == 0 || *count > kDevicesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device ", text, ": cpu:N has N devices of the processor, 1 to ", kDevicesMax));
  }
  if (*count == 1 || use == DeviceFor::kTraining) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--device ", text, ": several devices are for workers that train; give cpu"));
}

bool NamesPlugin(const std::string& text) {
  return text.starts_with(kPjrt) && text.size() > kPjrt.size();
}

}  // namespace

absl::Status CheckDeviceText(const std::string& text, DeviceFor use) {
  if (text == "cpu" || text == "auto" || NamesPlugin(text)) return absl::OkStatus();
  if (text.starts_with(kCpus)) return CheckCpus(text, use);
  const bool all = text == kAllGpus;
  std::vector<uint32_t> gpus = GpusOf(text);
  if ((all || gpus.size() > 1) && use != DeviceFor::kTraining) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", text, " is for workers that train; give cuda:N"));
  }
  if (!all && gpus.empty()) return NoDevice(text, use);
  std::ranges::sort(gpus);
  if (std::ranges::adjacent_find(gpus) == gpus.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--device ", text, ": a GPU is named twice"));
}

absl::StatusOr<std::string> ChooseDevice(const std::string& text, DeviceFor use, std::string* note,
                                         uint32_t turn) {
  RETURN_IF_ERROR(CheckDeviceText(text, use));
  if (text.starts_with(kCpus)) return text == "cpu:1" ? "cpu" : text;
  if (text == "cpu" || NamesPlugin(text)) return text;
  const bool all = text == kAllGpus;
  const std::vector<uint32_t> gpus = GpusOf(text);
  if (all || gpus.size() > 1) LoadAllCode();  // a job may have them add up gradients by NCCL
  const absl::StatusOr<int> count = CountDevices(all);
  const std::string why(count.status().message());
  if (text != "auto" && !count.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--device ", text, ": ", why));
  }
  for (const uint32_t gpu : gpus) {
    if (gpu < static_cast<uint32_t>(*count)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", text, ": there are ", *count, " GPUs, the first is cuda:0"));
  }
  if (gpus.size() > 1 || (all && *count > 1)) return text;
  if (count.ok()) {
    const uint32_t own = all ? 0 : turn % static_cast<uint32_t>(*count);
    return absl::StrCat(std::string(kCuda), gpus.empty() ? own : gpus[0]);
  }
  if (note != nullptr) *note = absl::StrCat("computing on the CPU: ", why);
  return std::string("cpu");
}

absl::StatusOr<std::vector<std::string>> DevicesOf(const std::string& device) {
  if (device.starts_with(kCpus)) {
    const uint32_t count = PlainNumber(device.substr(kCpus.size())).value_or(1);
    return std::vector<std::string>(count, "cpu");
  }
  std::vector<uint32_t> gpus = GpusOf(device);
  if (device == kAllGpus) {
    ASSIGN_OR_RETURN(const int count, CountDevices(/*together=*/false));
    for (int i = 0; i < count; ++i) gpus.push_back(static_cast<uint32_t>(i));
  }
  if (gpus.empty()) return std::vector<std::string>{device};
  std::vector<std::string> devices;
  for (const uint32_t gpu : gpus) devices.push_back(absl::StrCat(std::string(kCuda), gpu));
  return devices;
}

std::string NumericsOf(const std::string& device, int threads) {
  if (device == "cpu")
    return absl::StrCat("cpu ", CpuNumerics(), " threads ", std::max(threads, 1));
  return device.substr(0, device.find(':'));
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

absl::StatusOr<std::vector<Replica>> MakeGpuGroup(const std::vector<std::string>& devices) {
  LoadAllCode();
  std::vector<int> numbers;
  for (const std::string& device : devices) {
    const std::vector<uint32_t> gpus = GpusOf(device);
    if (gpus.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("NCCL adds up arrays of GPUs, and \"", device, "\" is none"));
    }
    numbers.push_back(static_cast<int>(gpus[0]));
  }
  ASSIGN_OR_RETURN(const CudaPluginTable* const plugin, LoadCudaPlugin(CudaPluginPath()));
  return MakeCudaGroup(*plugin, numbers);
}

}  // namespace paracord
