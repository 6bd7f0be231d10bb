// The one thin table of calls through which all of CUDA is used: the runtime, cuBLAS, cuDNN, NCCL.
// ToolkitRuntime makes the real calls; tests/cuda_host fills it on the processor, so that the very
// same engine runs, and is examined, without a GPU. Arguments are as those libraries document
// theirs. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/group_ops.h"
#include "tensor/ops.h"

namespace paracord::cuda {

using Stream = void*;
using Event = void*;
using StepGraph = void*;

// Of the device.
struct MemoryInfo {
  size_t free = 0, total = 0;
  size_t code = 0;  // what code that is loaded when it is first needed may take of it
};

enum class CopyKind { kToDevice, kToHost };

// `kernel` takes one argument by value, of which `args` are the bytes.
struct KernelLaunch {
  const char* name = "";
  const void* kernel = nullptr;
  const void* args = nullptr;
  size_t args_size = 0;
  uint32_t blocks_x = 1, blocks_y = 1, threads = 1;
};

// Of one element.
inline int64_t OperandBytes(Operands operands) {
  return operands == Operands::kBfloat16 || operands == Operands::kFloat16 ? 2 : 4;
}

// cublasLtMatmul, or cublasGemmStridedBatchedEx_64: column-major, C (m, n) = alpha op(A) op(B), of
// all columns plus the bias (m), then ReLU. A and B are CUDA_R_16BF or CUDA_R_16F where `operands`
// says so, else CUDA_R_32F, as C is; computed as CUBLAS_COMPUTE_32F, for kTf32
// CUBLAS_COMPUTE_32F_FAST_TF32 on GPUs that have it.
struct GemmCall {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0, stride_a = 0;
  const void* b = nullptr;
  int64_t ldb = 0, stride_b = 0;
  float* c = nullptr;
  int64_t ldc = 0, stride_c = 0;
  int64_t batch = 1;
  Operands operands = Operands::kFloat32;
  const float* factors = nullptr;  // alpha and beta, which is 0, on the device; null: alpha is 1
  const float* bias = nullptr;     // or null
  bool relu = false;
};

// Graphs of cuDNN: tensors with the channels innermost, the filter too (out, height, width, in /
// groups), cross-correlation. Padding may differ between both ends.
struct ConvCall {
  ConvShape shape;
  // kFloat32: FMA alone, kTf32: tensor cores may multiply. In 16 bits they must, and x, w, y and
  // their gradients are of that type; bias and ReLU are computed only where shape.y_bfloat16, and
  // the bias is bfloat16, too.
  Operands operands = Operands::kFloat32;
  size_t workspace_max = 0;  // bytes that an engine may ask for
};

// What of a convolution cuDNN has engines for.
struct Directions {
  bool forward = true, data = true, filter = true;
  bool finishes = true;  // the way forward with the shape's bias and ReLU, else without
};

// A convolution with its engines. Asynchronous on the stream. What it cannot is not asked for;
// UNIMPLEMENTED: it cannot do that after all, and nothing was done. Operands and results lie at
// multiples of 16 bytes.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual Directions can() const = 0;
  virtual size_t workspace_bytes() const = 0;
  virtual absl::Status Forward(const void* x, const void* w, const void* bias, void* y,
                               void* workspace, Stream stream) = 0;
  virtual absl::Status BackwardData(const void* w, const void* dy, void* dx, void* workspace,
                                    Stream stream) = 0;
  virtual absl::Status BackwardFilter(const void* x, const void* dy, void* dw, void* workspace,
                                      Stream stream) = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Whether tensor cores compute products of bfloat16, and TF32: from compute capability 8.0 on.
  virtual bool has_bfloat16() const = 0;
  // Makes this runtime's device that of the calling thread.
  virtual absl::Status UseDevice() = 0;
  // RESOURCE_EXHAUSTED: the device has no more; the message has the sizes.
  virtual absl::StatusOr<void*> Malloc(size_t bytes) = 0;
  virtual absl::Status Free(void* memory) = 0;
  virtual absl::StatusOr<MemoryInfo> GetMemoryInfo() = 0;
  // For who looks at accesses: that an allocation is used in parts from now on, that these bytes of
  // it are one, with contents that are not defined, and that they are none any more. Parts have so
  // many bytes between them.
  virtual void Part(void* /*allocation*/) {}
  virtual void Use(void* /*part*/, size_t /*bytes*/) {}
  virtual void Unuse(void* /*part*/) {}
  virtual size_t gap_bytes() const { return 0; }
  // Of memory that is pinned a copy is asynchronous: it stays until the stream is done. Other
  // memory may change when a copy to the device returns, and stays as well when it is copied to.
  virtual absl::Status Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                            Stream stream) = 0;
  // The host's memory, pinned: to be had so, and what is there already, the pages of which are its
  // own. Other runtimes may have pinned the same; it is until all have unpinned it (host_pins.h).
  // ALREADY_EXISTS: it is, by somebody else.
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual absl::Status FreeHost(void* memory) = 0;
  virtual absl::Status PinHost(const void* memory, size_t bytes) = 0;
  virtual absl::Status UnpinHost(const void* memory) = 0;
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  virtual absl::Status DestroyStream(Stream stream) = 0;
  // Waits for all that was asked of the stream; the first error of it.
  virtual absl::Status Synchronize(Stream stream) = 0;
  virtual absl::StatusOr<Event> CreateEvent() = 0;
  virtual absl::StatusOr<Event> CreateTimedEvent() = 0;
  // Between two timed events that were recorded and are done.
  virtual absl::StatusOr<float> ElapsedMs(Event from, Event to) = 0;
  virtual absl::Status DestroyEvent(Event event) = 0;
  // For AwaitEvent. In a capture its record is one of every launch of the graph, which must go
  // first.
  virtual absl::StatusOr<Event> CreateHostEvent() = 0;
  // Until what was asked of the stream before the event's last record is done. Sleeps.
  virtual absl::Status AwaitEvent(Event event) = 0;
  virtual absl::Status Record(Event event, Stream stream) = 0;
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  // From Begin to End what is asked of the stream, and of those that wait for its events, is kept
  // instead of done; the stream must wait for them all at the end. Copies are of pinned memory, and
  // events that streams wait for are of the same capture. After an error End is needed all the
  // same.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<StepGraph> EndCapture(Stream stream) = 0;
  // All of it, when the stream has come to it, with the arguments it had.
  virtual absl::Status LaunchGraph(StepGraph graph, Stream stream) = 0;
  virtual absl::Status DestroyGraph(StepGraph graph) = 0;
  virtual absl::Status Launch(const KernelLaunch& launch, Stream stream) = 0;
  virtual absl::Status Gemm(const GemmCall& call, Stream stream) = 0;
  // UNIMPLEMENTED: cuDNN has no engine for it, in no direction.
  virtual absl::StatusOr<std::unique_ptr<Convolution>> MakeConvolution(const ConvCall& call) = 0;
  // Of a device of a group: ncclAllReduce of each, the sum in place, within one ncclGroup.
  virtual absl::Status AllReduce(std::span<const DeviceFloats> arrays, Stream stream) = 0;
  // ncclCommAbort. From any thread; what is under way or asked for later fails with DATA_LOSS.
  virtual void AbortGroup() = 0;
};

}  // namespace paracord::cuda
