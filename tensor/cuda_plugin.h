// The CUDA plug-in: a shared library with all code that uses CUDA. Loaded on demand, to let the
// programs start on machines without CUDA, and never unloaded. The interface is C, but the returned
// Ops is a C++ object of the same build, guarded by the version number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// Raise the number with every change of ops.h, compute_device.h or this file.
constexpr uint32_t kCudaPluginVersion = 16;

extern "C" {
// The table returned by the plug-in's function paracord_cuda_plugin(). Functions that fail write
// the reason into `why`, in a single line.
struct CudaPluginTable {
  uint32_t version;
  // Returns the number of usable GPUs, or -1 and the missing part (driver, cuBLAS, cuDNN).
  int (*device_count)(char* why, size_t why_size);
  // Returns an Ops* that the caller must delete, or null and the reason.
  void* (*make_ops)(int device, char* why, size_t why_size);
  // Returns 0 if the libraries (null: the usual names) have every called function.
  int (*check_libraries)(const char* cublas, const char* cudnn, char* why, size_t why_size);
  // Makes `count` GPUs, given by their numbers, a group by NCCL and writes the members to an array
  // of `count` elements, in the order of `devices`. Returns 0 on success.
  int (*make_group)(const int* devices, int count, Replica* replicas, char* why, size_t why_size);
  // Returns 0 if the NCCL library (null: the usual name) has every called function.
  int (*check_nccl)(const char* nccl, char* why, size_t why_size);
};
using CudaPluginFn = const CudaPluginTable* (*)();
}

// Loads the plug-in at `path`. The error is a single line and names the path.
absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path);

// Returns the path of the plug-in: PARACORD_CUDA_PLUGIN if set, otherwise CudaPluginPathFrom the
// program's own folder.
std::string CudaPluginPath();
// Returns the path of the plug-in for a program in `folder`: in the folder or, if installed there,
// in ../lib/paracord.
std::string CudaPluginPathFrom(const std::string& folder);

// Returns the number of GPUs, at least one, or an error that names what is missing.
absl::StatusOr<int> CudaDeviceCount(const CudaPluginTable& plugin);
absl::StatusOr<std::unique_ptr<Ops>> MakeCudaOps(const CudaPluginTable& plugin, int device);
absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin,
                                                   const std::vector<int>& devices);
absl::Status CheckNccl(const CudaPluginTable& plugin);

}  // namespace paracord
