#include "tensor/cuda/toolkit_runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/page_locks.h"
#include "tensor/cuda/toolkit_convolution.h"
#include "tensor/cuda/toolkit_library.h"
#include "tensor/cuda/toolkit_nccl.h"
#include "tensor/cuda/toolkit_product.h"
#include "tensor/cuda/toolkit_status.h"

namespace paracord::cuda {
namespace {

constexpr size_t kCublasWorkspace = 32 << 20;  // cuBLAS' advice for the largest GPUs
constexpr size_t kCodeBytesMax = 512 << 20;    // cuDNN's, cuBLAS' and our kernels, loaded lazily
// Limit for issuing an all-reduce, which does not block.
constexpr std::chrono::seconds kAskingMax(2);

#define RETURN_IF_CUDA(name, ...) RETURN_IF_ERROR(StatusOf(#name, name(__VA_ARGS__)))

PageLocks& TheLocks() {
  static PageLocks locks;
  return locks;
}

class ToolkitRuntime : public Runtime {
 public:
  ToolkitRuntime(int device, const ToolkitOptions& options, const Libraries& libraries)
      : device_(device), options_(options), libraries_(libraries) {}
  ~ToolkitRuntime() override {
    if (comm_ != nullptr) nccl_->ncclCommDestroy(comm_);
    if (cudnn_ != nullptr) libraries_.cudnnDestroy(cudnn_);
    products_.reset();
    if (cublaslt_ != nullptr) libraries_.cublasLtDestroy(cublaslt_);
    if (cublas_ != nullptr) libraries_.cublasDestroy_v2(cublas_);
    if (workspace_ != nullptr) (void)cudaFree(workspace_);
  }
  absl::Status Init() {
    RETURN_IF_ERROR(UseDevice());
    cudaFuncAttributes kernel;  // the plug-in may lack kernels for the GPU
    RETURN_IF_CUDA(cudaFuncGetAttributes, &kernel, MapKernel<FillBody>());
    int major = 0;
    RETURN_IF_CUDA(cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, device_);
    has_bfloat16_ = major >= 8;
    ASSIGN_OR_RETURN(workspace_, Malloc(kCublasWorkspace));
    RETURN_IF_ERROR(StatusOf(libraries_, "cublasCreate", libraries_.cublasCreate_v2(&cublas_)));
    RETURN_IF_ERROR(StatusOf(libraries_, "cublasLtCreate", libraries_.cublasLtCreate(&cublaslt_)));
    products_.emplace(libraries_, cublaslt_, workspace_, kCublasWorkspace);
    return StatusOf(libraries_, "cudnnCreate", libraries_.cudnnCreate(&cudnn_));
  }

  bool has_bfloat16() const override { return has_bfloat16_; }

  // Takes the group's communicator of the device, to destroy in the end.
  void JoinGroup(const Nccl& nccl, NcclComm comm) {
    nccl_ = &nccl;
    comm_ = comm;
  }

  absl::Status UseDevice() override {
    RETURN_IF_CUDA(cudaSetDevice, device_);
    return absl::OkStatus();
  }

  absl::StatusOr<void*> Malloc(size_t bytes) override {
    void* memory = nullptr;
    const absl::Status status = StatusOf("cudaMalloc", cudaMalloc(&memory, bytes));
    if (status.ok()) return memory;
    if (!absl::IsResourceExhausted(status)) return status;
    const absl::StatusOr<MemoryInfo> info = GetMemoryInfo();
    if (!info.ok()) return status;
    return absl::ResourceExhaustedError(absl::StrCat("the GPU has no memory for ", bytes,
                                                     " bytes: ", info->free, " of its ",
                                                     info->total, " are free"));
  }
  absl::Status Free(void* memory) override {
    RETURN_IF_CUDA(cudaFree, memory);
    return absl::OkStatus();
  }
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override {
    MemoryInfo info;
    RETURN_IF_CUDA(cudaMemGetInfo, &info.free, &info.total);
    info.code = std::min(kCodeBytesMax, info.total / 32);
    return info;
  }
  absl::Status Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                    Stream stream) override {
    RETURN_IF_CUDA(cudaMemcpyAsync, to, from, bytes,
                   kind == CopyKind::kToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                   static_cast<cudaStream_t>(stream));
    return absl::OkStatus();
  }

  absl::StatusOr<void*> AllocateHost(size_t bytes) override {
    void* memory = nullptr;
    RETURN_IF_CUDA(cudaHostAlloc, &memory, bytes, cudaHostAllocDefault);
    return memory;
  }
  absl::Status FreeHost(void* memory) override {
    RETURN_IF_CUDA(cudaFreeHost, memory);
    return absl::OkStatus();
  }
  absl::Status PageLockHost(const void* memory, size_t bytes) override {
    return TheLocks().Lock(memory, bytes, [&]() -> absl::Status {
      const cudaError_t error =
          cudaHostRegister(const_cast<void*>(memory), bytes, cudaHostRegisterPortable);
      absl::Status status = StatusOf("cudaHostRegister", error);
      if (error != cudaErrorHostMemoryAlreadyRegistered) return status;
      return absl::AlreadyExistsError(status.message());
    });
  }
  absl::Status PageUnlockHost(const void* memory) override {
    return TheLocks().Unlock(memory, [&] {
      return StatusOf("cudaHostUnregister", cudaHostUnregister(const_cast<void*>(memory)));
    });
  }

  absl::StatusOr<Stream> CreateStream() override {
    cudaStream_t stream = nullptr;
    RETURN_IF_CUDA(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    return static_cast<Stream>(stream);
  }
  absl::Status DestroyStream(Stream stream) override {
    RETURN_IF_CUDA(cudaStreamDestroy, static_cast<cudaStream_t>(stream));
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream stream) override {
    RETURN_IF_CUDA(cudaStreamSynchronize, static_cast<cudaStream_t>(stream));
    return GroupStatus();
  }
  absl::StatusOr<Event> CreateEvent() override {
    cudaEvent_t event = nullptr;
    RETURN_IF_CUDA(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    return static_cast<Event>(event);
  }
  absl::StatusOr<Event> CreateTimedEvent() override {
    cudaEvent_t event = nullptr;
    RETURN_IF_CUDA(cudaEventCreateWithFlags, &event, cudaEventDefault);
    return static_cast<Event>(event);
  }
  absl::StatusOr<Event> CreateHostEvent() override {
    cudaEvent_t event = nullptr;
    RETURN_IF_CUDA(cudaEventCreateWithFlags, &event,
                   cudaEventDisableTiming | cudaEventBlockingSync);
    host_events_.insert(event);
    return static_cast<Event>(event);
  }
  absl::Status AwaitEvent(Event event) override {
    RETURN_IF_CUDA(cudaEventSynchronize, static_cast<cudaEvent_t>(event));
    return GroupStatus();
  }
  absl::StatusOr<float> ElapsedMs(Event from, Event to) override {
    float ms = 0;
    RETURN_IF_CUDA(cudaEventElapsedTime, &ms, static_cast<cudaEvent_t>(from),
                   static_cast<cudaEvent_t>(to));
    return ms;
  }
  absl::Status DestroyEvent(Event event) override {
    host_events_.erase(event);
    RETURN_IF_CUDA(cudaEventDestroy, static_cast<cudaEvent_t>(event));
    return absl::OkStatus();
  }
  absl::Status Record(Event event, Stream stream) override {
    const bool outside = capturing_ && host_events_.count(event) == 1;
    RETURN_IF_CUDA(cudaEventRecordWithFlags, static_cast<cudaEvent_t>(event),
                   static_cast<cudaStream_t>(stream),
                   outside ? cudaEventRecordExternal : cudaEventRecordDefault);
    return absl::OkStatus();
  }
  absl::Status Wait(Stream stream, Event event) override {
    RETURN_IF_CUDA(cudaStreamWaitEvent, static_cast<cudaStream_t>(stream),
                   static_cast<cudaEvent_t>(event), 0);
    return absl::OkStatus();
  }

  absl::Status BeginCapture(Stream stream) override {
    RETURN_IF_CUDA(cudaStreamBeginCapture, static_cast<cudaStream_t>(stream),
                   cudaStreamCaptureModeThreadLocal);
    capturing_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<StepGraph> EndCapture(Stream stream) override {
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    const absl::Status captured = StatusOf(
        "cudaStreamEndCapture", cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph));
    if (!captured.ok()) {
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      return captured;
    }
    cudaGraphExec_t made = nullptr;
    const absl::Status status =
        StatusOf("cudaGraphInstantiate", cudaGraphInstantiate(&made, graph, 0));
    (void)cudaGraphDestroy(graph);
    RETURN_IF_ERROR(status);
    return static_cast<StepGraph>(made);
  }
  absl::Status LaunchGraph(StepGraph graph, Stream stream) override {
    RETURN_IF_CUDA(cudaGraphLaunch, static_cast<cudaGraphExec_t>(graph),
                   static_cast<cudaStream_t>(stream));
    return absl::OkStatus();
  }
  absl::Status DestroyGraph(StepGraph graph) override {
    RETURN_IF_CUDA(cudaGraphExecDestroy, static_cast<cudaGraphExec_t>(graph));
    return absl::OkStatus();
  }

  absl::Status Launch(const KernelLaunch& launch, Stream stream) override {
    void* args[] = {const_cast<void*>(launch.args)};
    RETURN_IF_CUDA(cudaLaunchKernel, launch.kernel, dim3(launch.blocks_x, launch.blocks_y),
                   dim3(launch.threads), args, 0, static_cast<cudaStream_t>(stream));
    return absl::OkStatus();
  }

  absl::Status Gemm(const GemmCall& call, Stream stream) override {
    // Calls with a common workspace must be issued on one stream.
    ASSIGN_OR_RETURN(const bool done, products_->Run(call, has_bfloat16_, stream));
    if (done) return absl::OkStatus();
    RETURN_IF_ERROR(UseStream(stream));
    const float one = 1, zero = 0;
    const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const cudaDataType_t type = call.operands == Operands::kBfloat16  ? CUDA_R_16BF
                                : call.operands == Operands::kFloat16 ? CUDA_R_16F
                                                                      : CUDA_R_32F;
    // GPUs with bfloat16 also have TF32.
    const bool tf32 = call.operands == Operands::kTf32 && has_bfloat16_;
    const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const bool given = call.factors != nullptr;
    const float *const alpha = given ? call.factors : &one, *const beta = given ? alpha + 1 : &zero;
    RETURN_IF_ERROR(
        StatusOf(libraries_, "cublasSetPointerMode",
                 libraries_.cublasSetPointerMode_v2(
                     cublas_, given ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST)));
    RETURN_IF_ERROR(
        StatusOf(libraries_, "cublasGemmStridedBatchedEx_64",
                 libraries_.cublasGemmStridedBatchedEx_64(
                     cublas_, op(call.transpose_a), op(call.transpose_b), call.m, call.n, call.k,
                     alpha, call.a, type, call.lda, call.stride_a, call.b, type, call.ldb,
                     call.stride_b, beta, call.c, CUDA_R_32F, call.ldc, call.stride_c, call.batch,
                     compute, CUBLAS_GEMM_DEFAULT)));
    return AddBias(call, stream);
  }

  absl::StatusOr<std::unique_ptr<Convolution>> MakeConvolution(const ConvCall& call) override {
    return MakeToolkitConvolution(libraries_, {.handle = cudnn_}, options_, call);
  }

  absl::Status AllReduce(std::span<const DeviceFloats> arrays, Stream stream) override {
    const std::lock_guard lock(comm_mu_);
    RETURN_IF_ERROR(GroupStatus());
    const NcclComm comm = comm_;
    RETURN_IF_ERROR(StatusOf(*nccl_, "ncclGroupStart", nccl_->ncclGroupStart()));
    absl::Status asked;
    for (const DeviceFloats& array : arrays) {
      if (!asked.ok()) break;
      asked = StatusOf(
          *nccl_, "ncclAllReduce",
          nccl_->ncclAllReduce(array.data, array.data, static_cast<size_t>(array.n), kNcclFloat32,
                               kNcclSum, comm, static_cast<cudaStream_t>(stream)));
    }
    const absl::Status ended = StatusOf(*nccl_, "ncclGroupEnd", nccl_->ncclGroupEnd());
    return asked.ok() ? ended : asked;
  }
  // ncclCommAbort frees the communicator: waits until no thread is issuing an all-reduce. If an
  // issuing thread hangs in NCCL, the wait ends after kAskingMax, because only the abort can end
  // such a hang.
  void AbortGroup() override {
    aborted_ = true;
    const std::unique_lock lock(comm_mu_, kAskingMax);
    if (NcclComm comm = std::exchange(comm_, nullptr); comm != nullptr) nccl_->ncclCommAbort(comm);
  }

 private:
  // An aborted all-reduce counts as done for the stream, with undefined results.
  absl::Status GroupStatus() const {
    return aborted_ ? absl::DataLossError("the group of GPUs was given up") : absl::OkStatus();
  }
  // Adds bias and ReLU in place of cuBLASLt's fusion. The products are contiguous, like all
  // products with a bias.
  absl::Status AddBias(const GemmCall& call, Stream stream) {
    if (call.bias == nullptr && !call.relu) return absl::OkStatus();
    const int64_t n = call.batch * call.m * call.n;
    const MapArgs<BiasBody> args{{call.m, call.relu, call.bias, Tensor(call.c)}, n};
    const int64_t blocks = std::clamp<int64_t>((n + kThreads - 1) / kThreads, 1, 1 << 13);
    return Launch({"bias", MapKernel<BiasBody>(), &args, sizeof(args),
                   static_cast<uint32_t>(blocks), 1, kThreads},
                  stream);
  }
  // Gives cuBLAS its workspace, which every change of the stream takes back. Otherwise cuBLAS would
  // allocate memory, forbidden while a graph is captured.
  absl::Status UseStream(Stream stream) {
    if (stream == cublas_stream_) return absl::OkStatus();
    RETURN_IF_ERROR(
        StatusOf(libraries_, "cublasSetStream",
                 libraries_.cublasSetStream_v2(cublas_, static_cast<cudaStream_t>(stream))));
    RETURN_IF_ERROR(
        StatusOf(libraries_, "cublasSetWorkspace",
                 libraries_.cublasSetWorkspace_v2(cublas_, workspace_, kCublasWorkspace)));
    cublas_stream_ = stream;
    return absl::OkStatus();
  }

  const int device_;
  const ToolkitOptions options_;
  const Libraries& libraries_;
  bool has_bfloat16_ = false;
  cublasHandle_t cublas_ = nullptr;
  cublasLtHandle_t cublaslt_ = nullptr;
  std::optional<ToolkitProducts> products_;
  cudnnHandle_t cudnn_ = nullptr;
  void* workspace_ = nullptr;
  Stream cublas_stream_ = nullptr;
  std::set<Event> host_events_;
  bool capturing_ = false;
  const Nccl* nccl_ = nullptr;  // set on members of a group
  std::atomic<bool> aborted_ = false;
  std::timed_mutex comm_mu_;
  NcclComm comm_ = nullptr;
};

// Checks the GPU without the slow creation of a context.
absl::Status CheckArchitecture(int device) {
  int major = 0, minor = 0;
  RETURN_IF_CUDA(cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, device);
  RETURN_IF_CUDA(cudaDeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, device);
  if (10 * major + minor >= PARACORD_CUDA_ARCHITECTURE_MIN) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "GPU ", device, " has compute capability ", major, ".", minor, ", the plug-in is for ",
      PARACORD_CUDA_ARCHITECTURE_MIN / 10, ".", PARACORD_CUDA_ARCHITECTURE_MIN % 10, " or later"));
}

}  // namespace

absl::StatusOr<int> CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    if (driver == 0) {
      return absl::FailedPreconditionError(
          "no NVIDIA driver (libcuda.so.1): install one for CUDA 13 or later, or give the "
          "container the machine's (docker run --gpus all)");
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the NVIDIA driver is for CUDA ", driver / 1000, ".", driver % 1000 / 10,
                     ", the plug-in needs ", CUDART_VERSION / 1000, ".0 or later"));
  }
  if (error == cudaErrorNoDevice) return absl::FailedPreconditionError("no GPU");
  RETURN_IF_ERROR(StatusOf("cudaGetDeviceCount", error));
  // A too old device is reported when used, unless all are too old.
  absl::Status usable = CheckArchitecture(0);
  for (int device = 1; device < count && !usable.ok(); ++device) {
    if (CheckArchitecture(device).ok()) usable = absl::OkStatus();
  }
  RETURN_IF_ERROR(usable);
  RETURN_IF_ERROR(OpenLibraries(kCublas, kCudnn).status());
  return count;
}

namespace {

absl::StatusOr<std::unique_ptr<ToolkitRuntime>> Make(int device, const ToolkitOptions& options) {
  ASSIGN_OR_RETURN(const Libraries* const libraries, OpenLibraries(kCublas, kCudnn));
  auto runtime = std::make_unique<ToolkitRuntime>(device, options, *libraries);
  RETURN_IF_ERROR(runtime->Init());
  return runtime;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> MakeToolkitRuntime(int device,
                                                            const ToolkitOptions& options) {
  return Make(device, options);
}

absl::StatusOr<std::vector<std::unique_ptr<Runtime>>> MakeToolkitGroup(
    std::span<const int> devices, const ToolkitOptions& options) {
  ASSIGN_OR_RETURN(const Nccl* const nccl, OpenNccl(kNccl));
  std::vector<std::unique_ptr<ToolkitRuntime>> made;
  for (const int device : devices) {
    absl::StatusOr<std::unique_ptr<ToolkitRuntime>> runtime = Make(device, options);
    if (!runtime.ok()) {
      return absl::Status(runtime.status().code(),
                          absl::StrCat("GPU ", device, ": ", runtime.status().message()));
    }
    made.push_back(*std::move(runtime));
  }
  std::vector<NcclComm> comms(made.size());
  const int count = static_cast<int>(made.size());
  RETURN_IF_ERROR(StatusOf(*nccl, "ncclCommInitAll",
                           nccl->ncclCommInitAll(comms.data(), count, devices.data())));
  std::vector<std::unique_ptr<Runtime>> group;
  for (size_t i = 0; i < made.size(); ++i) {
    made[i]->JoinGroup(*nccl, comms[i]);
    group.push_back(std::move(made[i]));
  }
  return group;
}

}  // namespace paracord::cuda
