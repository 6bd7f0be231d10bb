#include "tensor/cuda/toolkit_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord::cuda {

absl::StatusOr<void*> OpenLibrary(const char* what, const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* why = dlerror();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is missing: ", why == nullptr ? name : why));
}

absl::StatusOr<void*> FindSymbol(void* library, const std::string& file, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol != nullptr) return symbol;
  return absl::FailedPreconditionError(absl::StrCat(file, " has no ", name));
}

absl::Status CheckParts(const char* what, void* library, std::span<const char* const> parts) {
  char folder[PATH_MAX] = "";
  (void)dlinfo(library, RTLD_DI_ORIGIN, folder);
  for (const char* const part : parts) {
    if (access(absl::StrCat(folder, "/", part).c_str(), R_OK) == 0) continue;
    if (void* const found = dlopen(part, RTLD_LAZY | RTLD_LOCAL); found != nullptr) {
      dlclose(found);
      continue;
    }
    return absl::FailedPreconditionError(
        absl::StrCat(what, " in ", folder, " is not whole: ", part, " is missing"));
  }
  return absl::OkStatus();
}

namespace {

// cuDNN ends the process at its first use if a file is missing.
constexpr const char* kCudnnParts[] = {
    "libcudnn_graph.so.9",
    "libcudnn_ops.so.9",
    "libcudnn_cnn.so.9",
    "libcudnn_heuristic.so.9",
    "libcudnn_engines_precompiled.so.9",
    "libcudnn_engines_runtime_compiled.so.9",
};

absl::Status FindAll(const std::string& cublas, const std::string& cudnn, Libraries& to) {
  ASSIGN_OR_RETURN(void* const products, OpenLibrary("cuBLAS", cublas));
  ASSIGN_OR_RETURN(void* const convolutions, OpenLibrary("cuDNN", cudnn));
  if (cudnn == kCudnn) RETURN_IF_ERROR(CheckParts("cuDNN", convolutions, kCudnnParts));
#define PARACORD_PRODUCT(name) RETURN_IF_ERROR(FindFunction(products, cublas, #name, to.name));
#define PARACORD_CONVOLUTION(name) \
  RETURN_IF_ERROR(FindFunction(convolutions, cudnn, #name, to.name));
  PARACORD_CUBLAS_CALLS(PARACORD_PRODUCT)
  PARACORD_CUDNN_CALLS(PARACORD_CONVOLUTION)
  return absl::OkStatus();
}

}  // namespace

const char* const kCublas = "libcublas.so.13";
const char* const kCudnn = "libcudnn.so.9";

absl::StatusOr<const Libraries*> OpenLibraries(const std::string& cublas,
                                               const std::string& cudnn) {
  static Libraries libraries;  // one per process, like the libraries
  RETURN_IF_ERROR(FindAll(cublas, cudnn, libraries));
  return &libraries;
}

}  // namespace paracord::cuda
