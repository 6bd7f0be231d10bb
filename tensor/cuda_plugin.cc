#include "tensor/cuda_plugin.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

using Why = std::array<char, 512>;

std::string TextOf(const Why& why) { return std::string(why.data()); }

// Compares the file's size with its ELF headers: loading a file truncated by an interrupted copy
// would kill the process with SIGBUS.
absl::Status CheckWhole(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) {
    return absl::NotFoundError(absl::StrCat("no CUDA plug-in at ", path));
  }
  if (!std::filesystem::is_regular_file(path, none)) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA plug-in ", path, " is no file"));
  }
  const uint64_t bytes = std::filesystem::file_size(path, none);
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!file.good() || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::OkStatus();  // the loader reports the error
  }
  uint64_t end = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum && file.good(); ++i) {
    Elf64_Phdr part{};
    file.read(reinterpret_cast<char*>(&part), sizeof(part));
    if (part.p_type == PT_LOAD) end = std::max(end, part.p_offset + part.p_filesz);
  }
  if (file.good() && end <= bytes) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the CUDA plug-in ", path, " is cut off: ", bytes, " of ", end, " bytes"));
}

}  // namespace

std::string CudaPluginPath() {
  if (const char* path = std::getenv("PARACORD_CUDA_PLUGIN"); path != nullptr)
    return AbsolutePath(path);
  std::error_code none;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", none);
  return CudaPluginPathFrom(self.parent_path().string());
}

std::string CudaPluginPathFrom(const std::string& folder) {
  constexpr char kName[] = "libparacord_cuda.so";
  const auto beside = std::filesystem::path(folder) / kName;
  const auto installed = std::filesystem::path(folder).parent_path() / "lib/paracord" / kName;
  std::error_code none;
  const bool elsewhere =
      !std::filesystem::exists(beside, none) && std::filesystem::exists(installed, none);
  return (elsewhere ? installed : beside).string();
}

absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path) {
  RETURN_IF_ERROR(CheckWhole(path));
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
  if (plugin == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a CUDA plug-in of Paracord"));
  }
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

absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin,
                                                   const std::vector<int>& devices) {
  Why why{};
  std::vector<Replica> replicas(devices.size());
  const auto count = static_cast<int>(devices.size());
  const int made =
      plugin.make_group(devices.data(), count, replicas.data(), why.data(), why.size());
  if (made == 0) return replicas;
  return absl::FailedPreconditionError(TextOf(why));
}

absl::Status CheckNccl(const CudaPluginTable& plugin) {
  Why why{};
  if (plugin.check_nccl(nullptr, why.data(), why.size()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(TextOf(why));
}

}  // namespace paracord
