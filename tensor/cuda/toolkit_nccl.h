// Opens NCCL, only when several GPUs work together, and never closes it. NCCL's stable interface
// (nccl.h, 2.x) is declared here: building needs no NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord::cuda {

using NcclComm = struct ncclComm*;

struct Nccl {
  int (*ncclCommInitAll)(NcclComm* comms, int count, const int* devices) = nullptr;
  int (*ncclCommDestroy)(NcclComm comm) = nullptr;
  int (*ncclCommAbort)(NcclComm comm) = nullptr;
  int (*ncclAllReduce)(const void* from, void* to, size_t count, int type, int operation,
                       NcclComm comm, cudaStream_t stream) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  const char* (*ncclGetErrorString)(int result) = nullptr;
};
constexpr int kNcclSuccess = 0, kNcclSum = 0, kNcclFloat32 = 7;

// Opens NCCL; `name` is as for dlopen. The error names the missing library or function.
absl::StatusOr<const Nccl*> OpenNccl(const std::string& name);
absl::Status StatusOf(const Nccl& nccl, const char* call, int result);

extern const char* const kNccl;

}  // namespace paracord::cuda
