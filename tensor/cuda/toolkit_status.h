// Errors of CUDA, cuBLAS and cuDNN as Status. DATA_LOSS: the device's context is lost (a sticky
// error), and only a new process can use the device again. RESOURCE_EXHAUSTED: out of memory.
// INTERNAL: any other error.
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
  (void)cudaGetLastError();  // clears an error that is not sticky
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

// True if the error is about the machine (cuDNN can compute nothing here, or memory is short);
// false if it is about an unsupported convolution or algorithm.
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
    default:  // the first category is about the library itself
      return CUDNN_STATUS_CATEGORY(status) < CUDNN_STATUS_BAD_PARAM;
  }
}

inline bool IsNotSupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED && !IsOfMachine(status);
}

}  // namespace paracord::cuda
