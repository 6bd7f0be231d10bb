#include "worker/ops/cuda_plugin.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

using Why = std::array<char, 512>;

std::string TextOf(const Why& why) { return std::string(why.data()); }

}  // namespace

std::string CudaPluginPath() {
  if (const char* path = std::getenv("PARACORD_CUDA_PLUGIN"); path != nullptr) return path;
  std::error_code none;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", none);
  return (self.parent_path() / "libparacord_cuda.so").string();
}

absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) {
    return absl::NotFoundError(absl::StrCat("no CUDA plug-in at ", path));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("the CUDA plug-in does not load: ", why == nullptr ? path : why));
  }
  const auto entry = reinterpret_cast<CudaPluginFn>(dlsym(library, "paracord_cuda_plugin"));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a CUDA plug-in of Paracord"));
  }
  const CudaPluginTable* plugin = entry();
  if (plugin->version != kCudaPluginVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA plug-in ", path, " has version ",
                                                      plugin->version, ", this program needs ",
                                                      kCudaPluginVersion));
  }
  return plugin;
}

absl::StatusOr<int> CudaDeviceCount(const CudaPluginTable& plugin) {
  Why why{};
  const int count = plugin.device_count(why.data(), why.size());
  if (count > 0) return count;
  if (count == 0) return absl::NotFoundError("no GPU");
  return absl::FailedPreconditionError(TextOf(why));
}

absl::StatusOr<std::unique_ptr<Ops>> MakeCudaOps(const CudaPluginTable& plugin, int device) {
  Why why{};
  auto* ops = static_cast<Ops*>(plugin.make_ops(device, why.data(), why.size()));
  if (ops == nullptr) return absl::FailedPreconditionError(TextOf(why));
  return std::unique_ptr<Ops>(ops);
}

absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin, int count) {
  Why why{};
  std::vector<Replica> replicas(static_cast<size_t>(count));
  if (plugin.make_group(replicas.data(), count, why.data(), why.size()) == 0) return replicas;
  return absl::FailedPreconditionError(TextOf(why));
}

absl::Status CheckNccl(const CudaPluginTable& plugin) {
  Why why{};
  if (plugin.check_nccl(nullptr, why.data(), why.size()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(TextOf(why));
}

}  // namespace paracord
