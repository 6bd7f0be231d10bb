#include "worker/ops/cuda/toolkit_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord::cuda {
namespace {

absl::StatusOr<void*> Open(const char* what, const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* why = dlerror();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is missing: ", why == nullptr ? name : why));
}

template <class Function>
absl::Status Find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(file, " has no ", name));
}

absl::Status FindAll(const std::string& cublas, const std::string& cudnn, Libraries& to) {
  ASSIGN_OR_RETURN(void* const products, Open("cuBLAS", cublas));
  ASSIGN_OR_RETURN(void* const convolutions, Open("cuDNN", cudnn));
#define PARACORD_PRODUCT(name) RETURN_IF_ERROR(Find(products, cublas, #name, to.name));
#define PARACORD_CONVOLUTION(name) RETURN_IF_ERROR(Find(convolutions, cudnn, #name, to.name));
  PARACORD_CUBLAS_CALLS(PARACORD_PRODUCT)
  PARACORD_CUDNN_CALLS(PARACORD_CONVOLUTION)
  return absl::OkStatus();
}

}  // namespace

const char* const kCublas = "libcublas.so.13";
const char* const kCudnn = "libcudnn.so.9";

absl::StatusOr<const Libraries*> OpenLibraries(const std::string& cublas,
                                               const std::string& cudnn) {
  static Libraries libraries;  // of the process, as the libraries are
  RETURN_IF_ERROR(FindAll(cublas, cudnn, libraries));
  return &libraries;
}

}  // namespace paracord::cuda
