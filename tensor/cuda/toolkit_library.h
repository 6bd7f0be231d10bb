// Opens cuBLAS and cuDNN on demand: a missing library is an error message instead of a plug-in that
// does not load. The libraries are never closed.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>

#include <span>
#include <string>

#include "absl/status/statusor.h"

// Every function that we call, by library. cuBLAS includes cuBLASLt.
#define PARACORD_CUBLAS_CALLS(X)                                       \
  X(cublasCreate_v2)                                                   \
  X(cublasDestroy_v2)                                                  \
  X(cublasSetStream_v2)                                                \
  X(cublasGemmStridedBatchedEx_64)                                     \
  X(cublasGetStatusString)                                             \
  X(cublasSetWorkspace_v2)                                             \
  X(cublasSetPointerMode_v2)                                           \
  X(cublasLtCreate)                                                    \
  X(cublasLtDestroy)                                                   \
  X(cublasLtMatrixLayoutCreate)                                        \
  X(cublasLtMatrixLayoutDestroy)                                       \
  X(cublasLtMatrixLayoutSetAttribute)                                  \
  X(cublasLtMatmulDescCreate)                                          \
  X(cublasLtMatmulDescDestroy)                                         \
  X(cublasLtMatmulDescSetAttribute)                                    \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) \
      X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
#define PARACORD_CUDNN_CALLS(X)    \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnGetErrorString)           \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendExecute)

namespace paracord::cuda {

struct Libraries {
#define PARACORD_POINTER(name) decltype(&::name) name = nullptr;
  PARACORD_CUBLAS_CALLS(PARACORD_POINTER)
  PARACORD_CUDNN_CALLS(PARACORD_POINTER)
#undef PARACORD_POINTER
};

// Opens both libraries; names are as for dlopen. The error names what is missing.
absl::StatusOr<const Libraries*> OpenLibraries(const std::string& cublas, const std::string& cudnn);

// Opens a library; `name` is as for dlopen. The error begins with `what`.
absl::StatusOr<void*> OpenLibrary(const char* what, const std::string& name);
// Checks that `parts`, files that the library will open itself, exist beside the library or on the
// loader's path. The error names the missing file.
absl::Status CheckParts(const char* what, void* library, std::span<const char* const> parts);
absl::StatusOr<void*> FindSymbol(void* library, const std::string& file, const char* name);
template <class Function>
absl::Status FindFunction(void* library, const std::string& file, const char* name,
                          Function& function) {
  const absl::StatusOr<void*> symbol = FindSymbol(library, file, name);
  if (symbol.ok()) function = reinterpret_cast<Function>(*symbol);
  return symbol.status();
}

extern const char* const kCublas;
extern const char* const kCudnn;

}  // namespace paracord::cuda
