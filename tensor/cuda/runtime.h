// The engine's only interface to CUDA: the CUDA runtime, cuBLAS, cuDNN, NCCL. ToolkitRuntime makes
// the real calls; tests/cuda_host implements the interface on the processor, to run and check the
// engine without a GPU. Arguments are as documented in those libraries. Used by one thread at a
// time, except AbortGroup.
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

// The device's memory, in bytes.
struct MemoryInfo {
  size_t free = 0, total = 0;
  size_t code = 0;  // reserved for kernels loaded on first use
};

enum class CopyKind { kToDevice, kToHost };

// A kernel launch. `kernel` takes a single argument by value, the `args_size` bytes at `args`.
struct KernelLaunch {
  const char* name = "";
  const void* kernel = nullptr;
  const void* args = nullptr;
  size_t args_size = 0;
  uint32_t blocks_x = 1, blocks_y = 1, threads = 1;
};

// The bytes of an operand's element.
inline int64_t OperandBytes(Operands operands) {
  return operands == Operands::kBfloat16 || operands == Operands::kFloat16 ? 2 : 4;
}

// cublasLtMatmul, or cublasGemmStridedBatchedEx_64: column-major, C (m, n) = alpha op(A) op(B),
// plus the bias (m) in every column, then ReLU. A and B are CUDA_R_16BF or CUDA_R_16F where
// `operands` says so, otherwise CUDA_R_32F, as C is. The compute type is CUBLAS_COMPUTE_32F, or for
// kTf32 CUBLAS_COMPUTE_32F_FAST_TF32 on GPUs that have it.
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
  const float* factors = nullptr;  // alpha and beta (0) on the device; null: alpha is 1, beta 0
  const float* bias = nullptr;     // null: there is no bias
  bool relu = false;
};

// A convolution by cuDNN's graph API, as cross-correlation: channels are innermost in every tensor,
// also in the filter (out, height, width, in / groups). The two ends of an axis may have different
// padding.
struct ConvCall {
  ConvShape shape;
  // kFloat32 allows FMA only; kTf32 allows tensor cores, too. With kFloat16 and kBfloat16 tensor
  // cores must multiply, and x, w, y and their gradients have 16 bits; bias and ReLU are then fused
  // only with shape.y_bfloat16, and the bias is bfloat16.
  Operands operands = Operands::kFloat32;
  size_t workspace_max = 0;  // the most bytes of workspace of an engine
};

// The directions of a convolution for which cuDNN has an engine: `forward`, the output; `data`, the
// gradient of x; `filter`, the gradient of the kernel.
struct Directions {
  bool forward = true, data = true, filter = true;
  bool finishes = true;  // the forward engine also computes the shape's bias and ReLU
};

// A convolution with its chosen engines. Calls are asynchronous on the stream; the caller may use
// only directions that can() allows, and must pass tensors that begin at multiples of 16 bytes. A
// call returns UNIMPLEMENTED if the engine refuses at run time; nothing was computed then.
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

  // True if tensor cores multiply bfloat16 and TF32, from compute capability 8.0 on.
  virtual bool has_bfloat16() const = 0;
  // Makes the runtime's device the calling thread's current device.
  virtual absl::Status UseDevice() = 0;
  // Allocates device memory. Returns RESOURCE_EXHAUSTED if the device has too little left; the
  // message says how many bytes are needed and how many are free.
  virtual absl::StatusOr<void*> Malloc(size_t bytes) = 0;
  virtual absl::Status Free(void* memory) = 0;
  virtual absl::StatusOr<MemoryInfo> GetMemoryInfo() = 0;
  // Hooks for a runtime that checks memory accesses. Part: from now on only those bytes of the
  // allocation may be accessed that Use makes a part. Use: makes bytes a part, with undefined
  // contents. Unuse: ends a part. Parts must be gap_bytes() apart.
  virtual void Part(void* /*allocation*/) {}
  virtual void Use(void* /*part*/, size_t /*bytes*/) {}
  virtual void Unuse(void* /*part*/) {}
  virtual size_t gap_bytes() const { return 0; }
  // Copies between the host and the device. With page-locked host memory the copy is asynchronous,
  // and the memory must stay unchanged until the stream is done. A pageable source may change when
  // Copy returns; a pageable destination must stay until the stream is done.
  virtual absl::Status Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                            Stream stream) = 0;
  // Page-locked host memory: AllocateHost allocates, PageLockHost locks existing memory, whose
  // pages must hold nothing else. Several runtimes may lock the same memory; the last unlock
  // unlocks the pages (page_locks.h). ALREADY_EXISTS: code outside the runtimes has locked the
  // memory.
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual absl::Status FreeHost(void* memory) = 0;
  virtual absl::Status PageLockHost(const void* memory, size_t bytes) = 0;
  virtual absl::Status PageUnlockHost(const void* memory) = 0;
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  virtual absl::Status DestroyStream(Stream stream) = 0;
  // Waits until the stream is idle, and returns the first error of its work; DATA_LOSS after
  // AbortGroup.
  virtual absl::Status Synchronize(Stream stream) = 0;
  virtual absl::StatusOr<Event> CreateEvent() = 0;
  virtual absl::StatusOr<Event> CreateTimedEvent() = 0;
  // Returns the time between two timed events, both recorded and reached.
  virtual absl::StatusOr<float> ElapsedMs(Event from, Event to) = 0;
  virtual absl::Status DestroyEvent(Event event) = 0;
  // Creates an event for AwaitEvent. If a Record of the event is captured, every launch of the
  // graph records the event; the graph must be destroyed before the event.
  virtual absl::StatusOr<Event> CreateHostEvent() = 0;
  // Blocks the thread, without spinning, until the stream has reached the last Record of the event.
  // DATA_LOSS after AbortGroup.
  virtual absl::Status AwaitEvent(Event event) = 0;
  virtual absl::Status Record(Event event, Stream stream) = 0;
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  // Between BeginCapture and EndCapture, the work of the stream, and of streams that wait for its
  // events, is recorded in a graph instead of run; before EndCapture the stream must wait for the
  // other streams. Copies must use page-locked memory, and streams may only wait for events
  // recorded in the capture. EndCapture is called even after an error.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<StepGraph> EndCapture(Stream stream) = 0;
  // Runs the whole graph, with the captured arguments, in the stream's order.
  virtual absl::Status LaunchGraph(StepGraph graph, Stream stream) = 0;
  virtual absl::Status DestroyGraph(StepGraph graph) = 0;
  virtual absl::Status Launch(const KernelLaunch& launch, Stream stream) = 0;
  virtual absl::Status Gemm(const GemmCall& call, Stream stream) = 0;
  // UNIMPLEMENTED: cuDNN has no engine for any of the directions.
  virtual absl::StatusOr<std::unique_ptr<Convolution>> MakeConvolution(const ConvCall& call) = 0;
  // On a device of a group: calls ncclAllReduce on each array, in place, within one ncclGroup.
  virtual absl::Status AllReduce(std::span<const DeviceFloats> arrays, Stream stream) = 0;
  // Calls ncclCommAbort, from any thread: all-reduces in flight end with undefined results, and
  // later ones return DATA_LOSS.
  virtual void AbortGroup() = 0;
};

}  // namespace paracord::cuda
