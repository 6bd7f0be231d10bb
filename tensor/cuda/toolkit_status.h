// Errors of CUDA as Status. DATA_LOSS: the device's state is lost, and only a new process can go on
// (sticky errors). RESOURCE_EXHAUSTED: memory.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/cuda/toolkit_library.h"

namespace paracord::cuda {

inline bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

inline absl::Status StatusOf(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // an error that is not sticky goes when it is read
  const auto code = error == cudaErrorMemoryAllocation ? absl::StatusCode::kResourceExhausted
                    : IsSticky(error)                  ? absl::StatusCode::kDataLoss
                                                       : absl::StatusCode::kInternal;
  return absl::Status(
      code, absl::StrCat(call, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}

inline absl::Status StatusOf(const Libraries& libraries, const char* call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const auto code = status == CUBLAS_STATUS_ALLOC_FAILED ? absl::StatusCode::kResourceExhausted
                                                         : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(call, ": ", libraries.cublasGetStatusString(status)));
}

inline absl::Status StatusOf(const Libraries& libraries, const char* call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  return absl::Status(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat(call, ": ", libraries.cudnnGetErrorString(status)));
}

// It is not a convolution or an algorithm that cuDNN cannot do: it computes nothing on this
// machine, or there is no memory. Since version 9 the last digits say which.
inline bool IsOfMachine(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return false;
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
    case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return true;
    default:  // the first are about the library itself
      return CUDNN_STATUS_CATEGORY(status) < CUDNN_STATUS_BAD_PARAM;
  }
}

inline bool IsNotSupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED && !IsOfMachine(status);
}

}  // namespace paracord::cuda
