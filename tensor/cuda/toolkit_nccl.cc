#include "tensor/cuda/toolkit_nccl.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cuda/toolkit_library.h"

namespace paracord::cuda {

const char* const kNccl = "libnccl.so.2";

absl::StatusOr<const Nccl*> OpenNccl(const std::string& name) {
  static Nccl nccl;  // one per process, like the library
  // Makes NCCL set up all connections of a group at once, to let all-reduces be issued without
  // waiting. Read by NCCL when opened.
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  ASSIGN_OR_RETURN(void* const library, OpenLibrary("NCCL", name));
#define PARACORD_FIND(function) \
  RETURN_IF_ERROR(FindFunction(library, name, #function, nccl.function));
  PARACORD_FIND(ncclCommInitAll)
  PARACORD_FIND(ncclCommDestroy)
  PARACORD_FIND(ncclCommAbort)
  PARACORD_FIND(ncclAllReduce)
  PARACORD_FIND(ncclGroupStart)
  PARACORD_FIND(ncclGroupEnd)
  PARACORD_FIND(ncclGetErrorString)
#undef PARACORD_FIND
  return &nccl;
}

absl::Status StatusOf(const Nccl& nccl, const char* call, int result) {
  if (result == kNcclSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", nccl.ncclGetErrorString(result)));
}

}  // namespace paracord::cuda
