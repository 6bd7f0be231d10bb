// cuBLAS and cuDNN, opened when they are wanted, so that where they are missing is a line and not a
// plug-in that does not load. Never closed.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>

#include <span>
#include <string>

#include "absl/status/statusor.h"

// Every function that is called, by library. cuBLAS brings cuBLASLt.
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

// Names as for dlopen. The error names the library or the function that is missing.
absl::StatusOr<const Libraries*> OpenLibraries(const std::string& cublas, const std::string& cudnn);

// For each of them: the error says that `what`, or the function, is missing.
absl::StatusOr<void*> OpenLibrary(const char* what, const std::string& name);
// That the files which a library opens by itself are there, beside it or where the loader looks.
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
