#include "tests/cuda_host/host_runtime.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cuda/conv_own.h"
#include "tensor/cuda/pointer.h"
#include "tests/cuda_host/host_kernels.h"
#include "tests/cuda_host/host_math.h"
#include "tests/cuda_host/host_memory.h"
#include "tests/cuda_host/host_streams.h"
#include "tests/cuda_host/page_floats.h"

namespace paracord::cuda {
namespace {

// The memory and name of the running kernel, for MayRead and MayWrite.
thread_local HostMemory* running_memory = nullptr;
thread_local const char* running_kernel = "";
// The device that cudaSetDevice selected in this thread.
thread_local size_t current_device = 0;

class HostRuntime : public Runtime {
 public:
  explicit HostRuntime(HostOptions options)
      : options_(std::move(options)), streams_(memory_, options_.seed, options_.done) {}
  ~HostRuntime() override;

  bool has_bfloat16() const override { return options_.bfloat16; }
  absl::Status UseDevice() override {
    RETURN_IF_ERROR(Call("cudaSetDevice"));
    current_device = options_.rank;
    return absl::OkStatus();
  }
  absl::StatusOr<void*> Malloc(size_t bytes) override;
  absl::Status Free(void* memory) override;
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override {
    RETURN_IF_ERROR(CallHere("cudaMemGetInfo"));
    return MemoryInfo{options_.memory_bytes_max - bytes_, options_.memory_bytes_max,
                      options_.code_bytes};
  }
  void Part(void* allocation) override { memory_.Part(allocation); }
  void Use(void* part, size_t bytes) override { memory_.Use(part, bytes); }
  void Unuse(void* part) override { memory_.Unuse(part); }
  size_t gap_bytes() const override { return 64; }
  absl::Status Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                    Stream stream) override;
  absl::StatusOr<Stream> CreateStream() override {
    RETURN_IF_ERROR(CallHere("cudaStreamCreate"));
    return streams_.CreateStream();
  }
  absl::Status DestroyStream(Stream stream) override {
    RETURN_IF_ERROR(Call("cudaStreamDestroy"));
    streams_.DestroyStream(stream);
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream stream) override;
  absl::StatusOr<void*> AllocateHost(size_t bytes) override;
  absl::Status FreeHost(void* memory) override;
  absl::Status PageLockHost(const void* memory, size_t bytes) override;
  absl::Status PageUnlockHost(const void* memory) override;
  absl::StatusOr<Event> CreateEvent() override { return NewEvent(HostStreams::EventKind::kPlain); }
  absl::StatusOr<Event> CreateTimedEvent() override {
    return NewEvent(HostStreams::EventKind::kTimed);
  }
  absl::StatusOr<Event> CreateHostEvent() override {
    return NewEvent(HostStreams::EventKind::kOfHost);
  }
  absl::Status AwaitEvent(Event event) override;
  absl::StatusOr<float> ElapsedMs(Event from, Event to) override;
  absl::Status DestroyEvent(Event event) override {
    RETURN_IF_ERROR(Call("cudaEventDestroy"));
    if (!failed_ && streams_.GraphRecords(event)) {
      memory_.Note("cudaEventDestroy of an event that a graph records");
    }
    streams_.DestroyEvent(event);
    return absl::OkStatus();
  }
  absl::Status Record(Event event, Stream stream) override {
    RETURN_IF_ERROR(Call("cudaEventRecord"));
    return streams_.Record(event, stream);
  }
  absl::Status Wait(Stream stream, Event event) override {
    RETURN_IF_ERROR(Call("cudaStreamWaitEvent"));
    return streams_.Wait(stream, event);
  }
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<StepGraph> EndCapture(Stream stream) override;
  absl::Status LaunchGraph(StepGraph graph, Stream stream) override;
  absl::Status DestroyGraph(StepGraph graph) override {
    RETURN_IF_ERROR(Call("cudaGraphExecDestroy"));
    streams_.DestroyGraph(graph);
    return absl::OkStatus();
  }
  absl::Status Launch(const KernelLaunch& launch, Stream stream) override;
  absl::Status Gemm(const GemmCall& call, Stream stream) override;
  absl::StatusOr<std::unique_ptr<Convolution>> MakeConvolution(const ConvCall& call) override;
  absl::Status AllReduce(std::span<const DeviceFloats> arrays, Stream stream) override;
  void AbortGroup() override { options_.group->Abort(); }

  absl::Status Call(const char* name);
  // Counts a call on the thread's device, whichever runtime it is made on; also by convolutions.
  absl::Status CallHere(const char* name);
  absl::Status Ask(Stream stream, const char* what, std::function<void()> work, size_t bytes = 0) {
    return streams_.Ask(stream, what, std::move(work), bytes);
  }
  const HostOptions& options() const { return options_; }
  HostMemory& memory() { return memory_; }

 private:
  absl::StatusOr<Event> NewEvent(HostStreams::EventKind kind) {
    RETURN_IF_ERROR(CallHere("cudaEventCreate"));
    return streams_.CreateEvent(kind);
  }
  bool IsPageLocked(const void* at, size_t bytes) const;
  bool Overlaps(const char* begin, size_t bytes) const;  // any of it is page-locked

  const HostOptions options_;
  HostMemory memory_;
  HostStreams streams_;
  int64_t calls_ = 0;
  size_t bytes_ = 0;
  bool failed_ = false;
  absl::Status group_status_;
  std::map<void*, size_t> sizes_;
  std::map<const char*, size_t> page_locked_;             // ranges of host memory
  std::map<void*, std::unique_ptr<char[]>> host_memory_;  // allocated here
};

HostRuntime::~HostRuntime() {
  if (!failed_) {
    if (memory_.live() > 0) memory_.Note(absl::StrCat(memory_.live(), " allocations not freed"));
    if (!streams_.Left().empty()) memory_.Note(streams_.Left());
    if (!page_locked_.empty()) memory_.Note("memory of the host left page-locked");
  }
  if (options_.at_end) options_.at_end(calls_, memory_.wrong());
}

absl::Status HostRuntime::Call(const char* name) {
  const int64_t number = calls_++;
  if (options_.called) options_.called(name);
  if (number == options_.fail_call || (options_.sticky && failed_)) {
    failed_ = true;
    // cuBLAS and cuDNN have no error of their own for a lost device.
    const bool says = options_.sticky && std::string_view(name).starts_with("cuda");
    const auto code = says ? absl::StatusCode::kDataLoss : absl::StatusCode::kInternal;
    return absl::Status(code, absl::StrCat(name, ": failed as asked, call ", number));
  }
  return absl::OkStatus();
}

absl::Status HostRuntime::CallHere(const char* name) {
  if (current_device != options_.rank) {
    memory_.Note(absl::StrCat(name, ": the thread uses device ", current_device, ", this is ",
                              options_.rank));
  }
  return Call(name);
}

absl::StatusOr<void*> HostRuntime::Malloc(size_t bytes) {
  RETURN_IF_ERROR(CallHere("cudaMalloc"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaMalloc"));
  if (bytes > options_.memory_bytes_max - bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cudaMalloc: no memory for ", bytes, " bytes"));
  }
  void* memory = memory_.Allocate(bytes);
  bytes_ += bytes;
  sizes_[memory] = bytes;
  return memory;
}

absl::Status HostRuntime::Free(void* memory) {
  RETURN_IF_ERROR(Call("cudaFree"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaFree"));
  if (!memory_.Free(memory)) {
    memory_.Note("cudaFree of what is not there");
    return absl::InternalError("cudaFree: invalid argument");
  }
  bytes_ -= sizes_[memory];
  return absl::OkStatus();
}

absl::StatusOr<void*> HostRuntime::AllocateHost(size_t bytes) {
  RETURN_IF_ERROR(Call("cudaHostAlloc"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaHostAlloc"));
  if (!options_.page_locks) return absl::ResourceExhaustedError("cudaHostAlloc: no memory");
  auto memory = std::make_unique_for_overwrite<char[]>(bytes);
  char* const at = memory.get();
  std::memset(at, 0, bytes);
  page_locked_[at] = bytes;
  host_memory_[at] = std::move(memory);
  return at;
}

absl::Status HostRuntime::FreeHost(void* memory) {
  RETURN_IF_ERROR(Call("cudaFreeHost"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaFreeHost"));
  if (host_memory_.erase(memory) == 0) memory_.Note("cudaFreeHost of what is not there");
  page_locked_.erase(static_cast<char*>(memory));
  return absl::OkStatus();
}

absl::Status HostRuntime::PageLockHost(const void* memory, size_t bytes) {
  RETURN_IF_ERROR(Call("cudaHostRegister"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaHostRegister"));
  if (!options_.page_locks) return absl::InternalError("cudaHostRegister: not supported");
  const auto* const begin = static_cast<const char*>(memory);
  if (reinterpret_cast<uintptr_t>(begin) % PageBytes() != 0) {
    memory_.Note("cudaHostRegister: of a page that others share");
  }
  if (Overlaps(begin, bytes)) return absl::AlreadyExistsError("cudaHostRegister: registered");
  page_locked_[begin] = bytes;
  return absl::OkStatus();
}

absl::Status HostRuntime::PageUnlockHost(const void* memory) {
  RETURN_IF_ERROR(Call("cudaHostUnregister"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaHostUnregister"));
  if (page_locked_.erase(static_cast<const char*>(memory)) == 0) {
    memory_.Note("cudaHostUnregister of what is not there");
  }
  return absl::OkStatus();
}

bool HostRuntime::IsPageLocked(const void* at, size_t bytes) const {
  const auto* const begin = static_cast<const char*>(at);
  auto found = page_locked_.upper_bound(begin);
  if (found == page_locked_.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

bool HostRuntime::Overlaps(const char* begin, size_t bytes) const {
  const size_t page = PageBytes();
  const auto after = page_locked_.lower_bound(begin + bytes);
  if (after == page_locked_.begin()) return false;
  const auto& [at, size] = *std::prev(after);
  return at + (size + page - 1) / page * page > begin;  // whole pages are page-locked
}

absl::Status HostRuntime::Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                               Stream stream) {
  RETURN_IF_ERROR(Call("cudaMemcpyAsync"));
  const auto* const at = static_cast<const char*>(kind == CopyKind::kToDevice ? from : to);
  const bool page_locked = IsPageLocked(at, bytes);
  if (!page_locked && Overlaps(at, bytes)) {
    memory_.Note("cudaMemcpyAsync: memory that is page-locked in part");
    return absl::InternalError("cudaMemcpyAsync: invalid argument");
  }
  if (!page_locked) RETURN_IF_ERROR(streams_.Forbidden("cudaMemcpyAsync of pageable memory"));
  const auto lives = [this, page_locked, bytes](const void* host) {
    if (!page_locked || IsPageLocked(host, bytes)) return true;
    memory_.Note("cudaMemcpyAsync: memory of the host that is no longer page-locked");
    return false;
  };
  if (kind == CopyKind::kToDevice) {
    // Pageable memory is read before the call returns, page-locked memory when its turn comes.
    const auto* begin = static_cast<const char*>(from);
    auto read = std::make_shared<std::vector<char>>();
    if (!page_locked) read->assign(begin, begin + bytes);
    return Ask(
        stream, "copy to the device",
        [this, read, from, to, bytes, page_locked, lives] {
          if (!lives(from) || !memory_.Allows(to, bytes, false, "cudaMemcpyAsync")) return;
          std::memcpy(to, page_locked ? from : read->data(), bytes);
        },
        bytes);
  }
  if (!streams_.capturing()) std::memset(to, 0xff, bytes);  // NaN until the copy is done
  return Ask(
      stream, "copy to the host",
      [this, from, to, bytes, lives] {
        if (lives(to) && memory_.Allows(from, bytes, true, "cudaMemcpyAsync")) {
          std::memcpy(to, from, bytes);
        }
      },
      bytes);
}

absl::Status HostRuntime::Synchronize(Stream stream) {
  // An error here is one of work in flight; on a lost device nothing runs any more.
  absl::Status status = Call("cudaStreamSynchronize");
  if (options_.sticky && failed_) return status;
  RETURN_IF_ERROR(streams_.Run(stream));
  if (!memory_.wrong().empty()) return absl::InternalError(memory_.wrong());
  RETURN_IF_ERROR(group_status_);
  return status;
}

absl::Status HostRuntime::AwaitEvent(Event event) {
  absl::Status status = Call("cudaEventSynchronize");
  if (options_.sticky && failed_) return status;
  RETURN_IF_ERROR(streams_.Await(event));
  if (!memory_.wrong().empty()) return absl::InternalError(memory_.wrong());
  RETURN_IF_ERROR(group_status_);
  return status;
}

absl::Status HostRuntime::AllReduce(std::span<const DeviceFloats> arrays, Stream stream) {
  RETURN_IF_ERROR(Call("ncclAllReduce"));
  if (options_.group->aborted()) return absl::DataLossError("ncclAllReduce: given up");
  return Ask(stream, "all-reduce", [this, all = std::vector(arrays.begin(), arrays.end())] {
    for (const DeviceFloats& array : all) {
      const size_t bytes = static_cast<size_t>(array.n) * sizeof(float);
      memory_.Allows(array.data, bytes, /*written=*/false, "ncclAllReduce");
      // After an error the array may hold anything.
      if (!failed_) memory_.Allows(array.data, bytes, /*written=*/true, "ncclAllReduce");
    }
    const absl::Status summed = options_.group->Sum(options_.rank, all);
    if (group_status_.ok()) group_status_ = summed;
  });
}

absl::StatusOr<float> HostRuntime::ElapsedMs(Event from, Event to) {
  RETURN_IF_ERROR(Call("cudaEventElapsedTime"));
  RETURN_IF_ERROR(streams_.Forbidden("cudaEventElapsedTime"));
  ASSIGN_OR_RETURN(const int64_t tasks, streams_.Between(from, to));
  return static_cast<float>(tasks);
}

absl::Status HostRuntime::BeginCapture(Stream stream) {
  RETURN_IF_ERROR(Call("cudaStreamBeginCapture"));
  if (!options_.graphs) return absl::InternalError("cudaStreamBeginCapture: not supported");
  return streams_.BeginCapture(stream);
}

absl::StatusOr<StepGraph> HostRuntime::EndCapture(Stream stream) {
  // The capture is lost in any case.
  absl::StatusOr<StepGraph> graph = streams_.EndCapture(stream);
  const absl::Status called = Call("cudaStreamEndCapture");
  if (called.ok() || !graph.ok()) return graph;
  streams_.DestroyGraph(*graph);
  return called;
}

absl::Status HostRuntime::LaunchGraph(StepGraph graph, Stream stream) {
  RETURN_IF_ERROR(Call("cudaGraphLaunch"));
  return streams_.LaunchGraph(graph, stream);
}

absl::Status HostRuntime::Launch(const KernelLaunch& launch, Stream stream) {
  RETURN_IF_ERROR(CallHere("cudaLaunchKernel"));
  if (launch.blocks_x < 1 || launch.blocks_x > 0x7fffffff || launch.blocks_y < 1 ||
      launch.blocks_y > 65535 || launch.threads < 1 || launch.threads > 1024 ||
      launch.args_size > 4096) {
    memory_.Note(absl::StrCat(launch.name, ": cudaLaunchKernel: invalid configuration"));
    return absl::InternalError("cudaLaunchKernel: invalid configuration argument");
  }
  const auto* bytes = static_cast<const char*>(launch.args);
  auto args = std::make_shared<std::vector<char>>(bytes, bytes + launch.args_size);
  const auto kernel = reinterpret_cast<HostKernel>(const_cast<void*>(launch.kernel));
  const uint64_t order = streams_.Random();
  return Ask(stream, launch.name, [this, kernel, args, order, launch] {
    running_memory = &memory_;
    running_kernel = launch.name;
    const uint32_t blocks = launch.blocks_x * launch.blocks_y;
    for (uint32_t n = 0; n < blocks; ++n) {
      const uint32_t at = (order & 1) != 0 ? blocks - 1 - n : n;
      kernel(args->data(),
             {launch.blocks_x, at % launch.blocks_x, at / launch.blocks_x, (order & 2) != 0});
    }
    running_memory = nullptr;
  });
}

absl::Status HostRuntime::Gemm(const GemmCall& call, Stream stream) {
  RETURN_IF_ERROR(CallHere("cublasLtMatmul"));
  RETURN_IF_ERROR(CheckGemm(call));
  return Ask(stream, "matmul", [this, call] {
    const int64_t each = OperandBytes(call.operands);
    const auto allows = [&](const void* at, bool transpose, int64_t rows, int64_t columns,
                            int64_t ld, int64_t bytes, bool written) {
      if (transpose) std::swap(rows, columns);
      const auto all = static_cast<size_t>(((columns - 1) * ld + rows) * bytes);
      return memory_.Allows(at, all, written, "cublasLtMatmul");
    };
    if (call.factors != nullptr && !allows(call.factors, false, 2, 1, 2, 4, true)) return;
    if (call.bias != nullptr && !allows(call.bias, false, call.m, 1, call.m, 4, true)) return;
    for (int64_t b = 0; b < call.batch; ++b) {
      const auto* p = static_cast<const char*>(call.a) + b * call.stride_a * each;
      const auto* q = static_cast<const char*>(call.b) + b * call.stride_b * each;
      float* c = call.c + b * call.stride_c;
      if (allows(p, call.transpose_a, call.m, call.k, call.lda, each, true) &&
          allows(q, call.transpose_b, call.k, call.n, call.ldb, each, true) &&
          allows(c, false, call.m, call.n, call.ldc, 4, false)) {
        HostGemm(call, options_.bfloat16, p, q, c);
      }
    }
  });
}

class HostConvolution : public Convolution {
 public:
  HostConvolution(HostRuntime& runtime, const ConvCall& call, size_t workspace)
      : runtime_(runtime),
        s_(call.shape),
        each_(OperandBytes(call.operands)),
        workspace_(workspace),
        can_(runtime.options().directions),
        math_(call, can_.finishes = can_.finishes && (each_ == 4 || s_.y_bfloat16)) {}

  Directions can() const override { return can_; }
  size_t workspace_bytes() const override { return workspace_; }
  absl::Status Forward(const void* x, const void* w, const void* bias, void* y, void* workspace,
                       Stream stream) override {
    RETURN_IF_ERROR(Call("cudnnConvolutionForward", &Directions::forward));
    return runtime_.Ask(stream, "convolution", [this, x, w, bias, y, workspace] {
      const int64_t added = can_.finishes && s_.bias ? s_.out_channels : 0;
      if (May(workspace, {{x, s_.inputs()}, {w, KernelSize(s_)}, {added > 0 ? bias : w, added}},
              {y, s_.outputs()})) {
        math_.Forward(x, w, bias, y);
      }
    });
  }
  absl::Status BackwardData(const void* w, const void* dy, void* dx, void* workspace,
                            Stream stream) override {
    RETURN_IF_ERROR(Call("cudnnConvolutionBackwardData", &Directions::data));
    return runtime_.Ask(stream, "convolution", [this, w, dy, dx, workspace] {
      if (May(workspace, {{w, KernelSize(s_)}, {dy, s_.outputs()}}, {dx, s_.inputs()})) {
        math_.BackwardData(w, dy, dx);
      }
    });
  }
  absl::Status BackwardFilter(const void* x, const void* dy, void* dw, void* workspace,
                              Stream stream) override {
    RETURN_IF_ERROR(Call("cudnnConvolutionBackwardFilter", &Directions::filter));
    return runtime_.Ask(stream, "convolution", [this, x, dy, dw, workspace] {
      if (May(workspace, {{x, s_.inputs()}, {dy, s_.outputs()}}, {dw, KernelSize(s_)})) {
        math_.BackwardFilter(x, dy, dw);
      }
    });
  }

 private:
  struct Tensor {
    const void* at;
    int64_t elements;
  };
  absl::Status Call(const char* name, bool Directions::*way) {
    if (!(can_.*way)) return absl::InternalError("CUDNN_STATUS_BAD_PARAM");
    if (!(runtime_.options().computes.*way)) return absl::UnimplementedError("not of this size");
    return runtime_.CallHere(name);
  }
  // Vectors and tensor cores read 16 bytes at once.
  static bool Aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }
  bool May(void* workspace, std::initializer_list<Tensor> operands, const Tensor& result) {
    const char* const who = "cudnnConvolution";
    HostMemory& memory = runtime_.memory();
    if (!Aligned(result.at) || !Aligned(workspace)) {
      memory.Note("cudnnConvolution: a result at no 16 bytes");
    }
    if (!memory.Allows(workspace, workspace_, false, who)) return false;
    std::memset(workspace, 0x5a, workspace_);
    const auto allows = [&](const Tensor& tensor, bool written) {
      return memory.Allows(tensor.at, static_cast<size_t>(tensor.elements * each_), written, who);
    };
    for (const Tensor& operand : operands) {
      if (!Aligned(operand.at)) memory.Note("cudnnConvolution: an operand at no 16 bytes");
      if (!allows(operand, true)) return false;
    }
    return allows(result, false);
  }

  HostRuntime& runtime_;
  const ConvShape s_;
  const int64_t each_;  // bytes of an element
  const size_t workspace_;
  Directions can_;
  HostConvMath math_;
};

absl::StatusOr<std::unique_ptr<Convolution>> HostRuntime::MakeConvolution(const ConvCall& call) {
  const absl::Status called = CallHere("cudnnBackendFinalize");
  if (!options_.convolutions) return absl::UnimplementedError("CUDNN_STATUS_NOT_SUPPORTED");
  RETURN_IF_ERROR(called.ok() ? CheckConv(call) : called);
  // The fastest engine asks for this much workspace, others for less.
  const size_t workspace = options_.workspace ? options_.workspace(call.shape.batch) : 1000;
  return std::make_unique<HostConvolution>(*this, call, std::min(workspace, call.workspace_max));
}

bool May(const void* at, size_t bytes, bool written) {
  return running_memory != nullptr && running_memory->Allows(at, bytes, written, running_kernel);
}

}  // namespace

bool MayRead(const void* at, size_t bytes) { return May(at, bytes, true); }
bool MayWrite(const void* at, size_t bytes) { return May(at, bytes, false); }

std::unique_ptr<Runtime> MakeHostRuntime(HostOptions options) {
  return std::make_unique<HostRuntime>(std::move(options));
}

}  // namespace paracord::cuda
