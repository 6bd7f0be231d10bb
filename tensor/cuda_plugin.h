// The CUDA plug-in is a shared library that holds everything that uses CUDA. It is loaded on
// demand, so that the programs start on machines without CUDA, and never unloaded. Its interface is
// C, but the Ops that it makes is a C++ object of the same build; the version number guards that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/group_ops.h"

namespace paracord {

// This number must be raised with every change of ops.h, compute_device.h or this file.
constexpr uint32_t kCudaPluginVersion = 15;

extern "C" {
// The table that the plug-in's function paracord_cuda_plugin() returns. Functions that fail write
// the reason into `why`, in one line.
struct CudaPluginTable {
  uint32_t version;
  // Returns the number of usable GPUs, or -1 and what is missing (driver, cuBLAS, cuDNN).
  int (*device_count)(char* why, size_t why_size);
  // Returns an Ops* that the caller must delete, or null and the reason.
  void* (*make_ops)(int device, char* why, size_t why_size);
  // Returns 0 if these libraries (null: the usual names) have every function that is called.
  int (*check_libraries)(const char* cublas, const char* cudnn, char* why, size_t why_size);
  // Makes the first `count` GPUs a group by NCCL and writes them to an array of `count` elements.
  // Returns 0 on success.
  int (*make_group)(Replica* replicas, int count, char* why, size_t why_size);
  // Returns 0 if this NCCL library (null: the usual name) has every function that is called.
  int (*check_nccl)(const char* nccl, char* why, size_t why_size);
};
using CudaPluginFn = const CudaPluginTable* (*)();
}

// Loads the plug-in at `path`. The error is one line and names the path.
absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path);

// Returns the path of the plug-in: PARACORD_CUDA_PLUGIN if that is set, otherwise
// CudaPluginPathFrom the program's own folder.
std::string CudaPluginPath();
// Returns the path of the plug-in for a program in `folder`: beside it or, if it is installed
// there, in ../lib/paracord.
std::string CudaPluginPathFrom(const std::string& folder);

// Returns the number of GPUs, at least one, or an error that says what is missing.
absl::StatusOr<int> CudaDeviceCount(const CudaPluginTable& plugin);
absl::StatusOr<std::unique_ptr<Ops>> MakeCudaOps(const CudaPluginTable& plugin, int device);
absl::StatusOr<std::vector<Replica>> MakeCudaGroup(const CudaPluginTable& plugin, int count);
absl::Status CheckNccl(const CudaPluginTable& plugin);

}  // namespace paracord
