// Products by cuBLASLt, with bias and ReLU as a fused epilogue. The algorithm is chosen at the
// first product of each shape and alignment, and kept; after 4096 choices all are forgotten.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/toolkit_library.h"

namespace paracord::cuda {

class ToolkitProducts {
 public:
  // All arguments must outlive this object. The workspace is device memory; all products must run
  // on one stream, because they share the workspace.
  ToolkitProducts(const Libraries& libraries, cublasLtHandle_t handle, void* workspace,
                  size_t workspace_bytes)
      : libraries_(libraries),
        handle_(handle),
        workspace_(workspace),
        workspace_bytes_(workspace_bytes) {}

  // Runs the product asynchronously on the stream. Returns false, having computed nothing, if
  // cuBLASLt has no algorithm. If `tf32` is false, operands of kTf32 are computed as kFloat32.
  absl::StatusOr<bool> Run(const GemmCall& call, bool tf32, Stream stream);

 private:
  template <class T>
  using Held = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;
  struct Chosen {
    Held<cublasLtMatmulDesc_t> product;
    Held<cublasLtMatrixLayout_t> a, b, c;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;
  };
  absl::StatusOr<Held<cublasLtMatrixLayout_t>> Layout(cudaDataType_t type, int64_t rows,
                                                      int64_t columns, int64_t ld, int64_t batch,
                                                      int64_t stride) const;
  absl::StatusOr<Chosen> Describe(const GemmCall& call, bool tf32) const;
  absl::StatusOr<Chosen> Choose(const GemmCall& call, bool tf32);

  const Libraries& libraries_;
  const cublasLtHandle_t handle_;
  void* const workspace_;
  const size_t workspace_bytes_;
  std::map<std::string, Chosen> chosen_;  // keyed by all that the algorithm depends on
  bool said_slow_ = false;
};

}  // namespace paracord::cuda
