// Loads the CUDA plug-in, a shared library with all code that uses CUDA. The plug-in is loaded on
// demand, so that the programs start on machines without CUDA, and never unloaded. The plug-in's
// functions have C linkage, but an Ops that they return is a C++ object: the version number makes
// sure that both sides have the same declaration of Ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// Raise the number with every change of ops.h, compute_device.h, group_ops.h or this file.
constexpr uint32_t kCudaPluginVersion = 16;

extern "C" {
// The table returned by the plug-in's function paracord_cuda_plugin(). A function that fails writes
// the reason to `why`, in a single line of at most why_size - 1 bytes.
struct CudaPluginTable {
  uint32_t version;
  // Returns the number of GPUs, of which at least one is new enough. Returns -1 if none is, or if a
  // part is missing (driver, cuBLAS, cuDNN); `why` names what is missing.
  int (*device_count)(char* why, size_t why_size);
  // Returns an Ops* that the caller must delete, or null on failure.
  void* (*make_ops)(int device, char* why, size_t why_size);
  // Returns 0 if these libraries have every function that the plug-in calls. A null name stands for
  // the library's usual name.
  int (*check_libraries)(const char* cublas, const char* cudnn, char* why, size_t why_size);
  // Joins `count` GPUs, whose numbers are in `devices`, in a group by NCCL, and writes the members
  // in the order of `devices` to the array `replicas` of `count` elements. Returns 0 on success.
  int (*make_group)(const int* devices, int count, Replica* replicas, char* why, size_t why_size);
  // Returns 0 if the NCCL library `nccl` (null: NCCL's usual name) has every function that the
  // plug-in calls.
  int (*check_nccl)(const char* nccl, char* why, size_t why_size);
};
using CudaPluginFn = const CudaPluginTable* (*)();
}

// Loads the plug-in at `path`. The error is a single line and names the path, or a library that the
// plug-in needs and the loader does not find.
absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path);

// Returns the path of the plug-in: PARACORD_CUDA_PLUGIN if set, otherwise CudaPluginPathFrom the
// program's own folder.
std::string CudaPluginPath();
// Returns the path of the plug-in for a program in `folder`: in `folder`/../lib/paracord if the
// plug-in is there and not in `folder` itself, otherwise in `folder`.
std::string CudaPluginPathFrom(const std::string& folder);

// Returns the number of GPUs, at least one, or an error that names what is missing.
absl::StatusOr<int> CudaDeviceCount(const CudaPluginTable& plugin);
absl::StatusOr<std::unique_ptr<Ops>> MakeCudaOps(const CudaPluginTable& plugin, int device);
absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin,
                                                   const std::vector<int>& devices);
absl::Status CheckNccl(const CudaPluginTable& plugin);

}  // namespace paracord
