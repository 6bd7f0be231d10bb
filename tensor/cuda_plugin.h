// The CUDA plug-in: a shared library with all of CUDA in it, loaded when it is wanted, so that the
// programs need none of it to start. It is never unloaded. The interface is C; what it makes is an
// Ops of this very build, which the version stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// To be raised with every change of ops.h or of what is below.
constexpr uint32_t kCudaPluginVersion = 13;

extern "C" {
// What the function paracord_cuda_plugin() returns. Functions write why they failed, one line.
struct CudaPluginTable {
  uint32_t version;
  // Of usable GPUs; -1: `why` says what is missing (driver, cuBLAS, cuDNN).
  int (*device_count)(char* why, size_t why_size);
  // An Ops*, for the caller to delete; null: `why`.
  void* (*make_ops)(int device, char* why, size_t why_size);
  // 0 if these libraries, null for the usual names, have all that is called.
  int (*check_libraries)(const char* cublas, const char* cudnn, char* why, size_t why_size);
  // Of the first `count` GPUs, as a group by NCCL, into an array of so many; 0 if that went well.
  int (*make_group)(Replica* replicas, int count, char* why, size_t why_size);
  // 0 if this NCCL, null for the usual name, has all that is called.
  int (*check_nccl)(const char* nccl, char* why, size_t why_size);
};
using CudaPluginFn = const CudaPluginTable* (*)();
}

// Loads the plug-in at `path`. The error names it and is one line.
absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path);

// Beside the program or, where that is installed, in ../lib/paracord; or what PARACORD_CUDA_PLUGIN
// says.
std::string CudaPluginPath();
// The same for a program in `folder`, without that variable.
std::string CudaPluginPathFrom(const std::string& folder);

// An error that says what is missing, or how many GPUs there are: at least one.
absl::StatusOr<int> CudaDeviceCount(const CudaPluginTable& plugin);
absl::StatusOr<std::unique_ptr<Ops>> MakeCudaOps(const CudaPluginTable& plugin, int device);
absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin, int count);
absl::Status CheckNccl(const CudaPluginTable& plugin);

}  // namespace paracord
