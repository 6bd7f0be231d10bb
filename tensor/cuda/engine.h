// The common state of all operations on a GPU: the runtime, the streams, the first error, device
// memory (memory.h), page-locked staging buffers (staging.h), and launching kernels. There are four
// streams: computing, copies to the device, copies to the host, and all-reduces. The computing
// stream has all operations in order, and waits for uploads by events; downloads wait for the
// computing stream. Owned by CudaOps; used by one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/spans.h"
#include "tensor/cuda/staging.h"
#include "tensor/ops.h"

namespace paracord::cuda {

// Names of scratch buffers. Buffers in use at the same time have different names.
enum class Scratch {
  kPartial,
  kResult,
  kRows,
  kMore,
  kKeys,
  kKeysToo,
  kLeft,   // the left operand of a product, in 16 bits
  kRight,  // the right operand, in 16 bits
  kFactors,
  kRandom,
  kWorkspace,
  kCount
};

// The rows of a trace (spans.h): each stream has a row, which shows its work.
enum Lane { kCompute, kToDevice, kToHost, kReduce };

class Engine {
 public:
  explicit Engine(std::unique_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)), memory_(*runtime_), staging_(*runtime_), spans_(*runtime_) {}
  ~Engine();
  absl::Status Init();

  Runtime& runtime() const { return *runtime_; }
  Stream stream() const { return compute_; }
  bool ok() const { return error_.ok(); }
  // Returns false after an error and while memory is planned: then no operation is issued, except
  // AllReduce after an error, because other devices wait for it.
  bool runs() const { return ok() && !memory_.planning(); }
  // Issues work on the computing stream by calling ask(), which returns a status. Returns false if
  // nothing was issued or ask() failed.
  template <class Ask>
  bool Do(const char* what, const Ask& ask) {
    if (!runs()) return false;
    spans_.Begin(what, kCompute, compute_);
    Try(what, ask());
    spans_.End(kCompute, compute_);
    return ok();
  }
  // Takes the status of a call. The first error is kept until Finish; only a later DATA_LOSS
  // replaces it. Returns false if this call or an earlier one since Finish has failed.
  bool Try(const char* what, const absl::Status& status);
  absl::Status Enter();
  absl::Status Finish();

  // Logs a warning about something slow. Each Engine logs only its first such warning.
  void SaySlow(const std::string& what);

  // Sets the precision of the products and convolutions that are made from now on.
  void AllowOperands(Operands operands) { operands_ = operands; }
  Operands operands() const { return operands_; }

  absl::StatusOr<DeviceArray> Allocate(int64_t floats);
  int64_t allocated_bytes() const { return allocated_bytes_; }
  // Implements Device::KeepToPlan.
  void KeepToPlan(bool keep) { keep_to_plan_ = keep; }
  // Implement planning as in compute_device.h. Scratch memory is part of the plan.
  void BeginPlan() { memory_.BeginPlan(); }
  absl::Status EndPlan(MemoryPlan& plan);
  // Implement the copies of compute_device.h, in bytes.
  void Upload(const void* host, void* device, size_t bytes);
  void UploadBeside(const void* host, void* device, size_t bytes);
  void Download(const void* device, void* host, size_t bytes);
  void DownloadAwaited(const void* device, void* host, size_t bytes, size_t name);
  std::optional<size_t> AwaitDownload();
  // Implements GroupOps::AllReduce.
  void AllReduce(std::span<const DeviceFloats> arrays);
  void PageLock(const void* host, size_t bytes) { staging_.PageLock(host, bytes); }
  std::vector<DeviceSpan> TakeSpans(bool note) { return spans_.Take(note); }
  // Returns scratch memory for `count` elements, with undefined contents; null after an error.
  // While memory is planned the address must not be followed.
  template <class T>
  T* Work(Scratch name, int64_t count) {
    return static_cast<T*>(WorkBytes(name, static_cast<size_t>(count) * sizeof(T)));
  }
  // The most bytes of workspace that a convolution made now may use.
  size_t workspace_max() const;
  // Returns a device address for a number that Finish copies to `host`; null after an error.
  double* Result(double* host);

  // Copies `key` to the device, from where the operations issued next draw random numbers. Even
  // steps that are equal in all else have different keys; hence the key cannot be an argument of a
  // kernel, which a CUDA graph (replay.h) repeats. Returns null after an error.
  const uint64_t* Key(uint64_t key);

  // Launches body(i) for every i below n.
  template <class Body>
  void Map(const char* name, int64_t n, const Body& body) {
    const uint32_t blocks =
        BlocksFor(n, OfColumns<Body> ? 1 << 12 : (InSteps<Body> ? 1 << 13 : 1 << 20));
    MapArgs<Body> args{body, n};
    if constexpr (OfColumns<Body>) args.repeats = n > 0 && body.Repeats(int64_t{blocks} * kThreads);
    Send(name, MapKernel<Body>(), args, blocks, 1);
  }
  // Launches a reduction of `count` elements to each output. `across`: elements of neighbouring
  // outputs are neighbours in memory, and neighbouring threads take neighbouring outputs.
  template <class Body>
  void Reduce(const char* name, int64_t outputs, int64_t count, bool across, const Body& body);

 private:
  static uint32_t BlocksFor(int64_t n, int64_t most) {
    return static_cast<uint32_t>(std::clamp<int64_t>((n + kThreads - 1) / kThreads, 1, most));
  }
  template <class Args>
  void Send(const char* name, const void* kernel, Args args, uint32_t x, uint32_t y) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&args);  // equal arguments must be equal bytes (replay.h)
#endif
#endif
    Do(name, [&] {
      return runtime_->Launch({name, kernel, &args, sizeof(Args), x, y, kThreads}, compute_);
    });
  }
  void* WorkBytes(Scratch name, size_t bytes);
  void Release(void* memory);
  void Wait();
  void AskForResults();
  void TakeOver();
  bool CopyToHost(const void* device, void* host, size_t bytes);
  void CopyToDevice(const void* from, void* device, size_t bytes);

  struct Buffer {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  struct Staged {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
  };
  struct Awaited {
    size_t name = 0;
    Event event = nullptr;
    void* host = nullptr;
  };
  const std::unique_ptr<Runtime> runtime_;
  DeviceMemory memory_;
  Staging staging_;
  Spans spans_;
  int64_t allocated_bytes_ = 0;
  size_t device_bytes_ = 0;
  Stream compute_ = nullptr, to_device_ = nullptr, to_host_ = nullptr;
  Stream reduce_ = nullptr;  // created by the first AllReduce
  Event computed_ = nullptr, uploaded_ = nullptr, reduced_ = nullptr;
  bool group_lost_ = false;
  std::vector<Event> host_events_;
  // The members from here to asked_count_, and error_, describe the work since the last Finish.
  std::vector<Awaited> awaited_;
  size_t next_awaited_ = 0;
  std::vector<Staged> downloads_;  // downloads that Finish copies from staging to the host
  std::vector<double*> results_;   // [i]: where Finish stores the i-th result
  const double* asked_ = nullptr;  // where the first `asked_count_` results arrive on the host
  size_t asked_count_ = 0;
  std::vector<double> pageable_results_;
  absl::Status error_;
  Operands operands_ = Operands::kFloat32;
  bool keep_to_plan_ = false, said_slow_ = false;
  std::array<Buffer, static_cast<size_t>(Scratch::kCount)> work_;
};

// How a reduction is divided among threads and blocks. This depends on the shape alone, so that
// every GPU adds in the same order.
struct Cut {
  int bits = 0;
  int parts = 1;
  int width() const { return 1 << bits; }
};
constexpr int64_t kBlocksEnough = 1024;  // enough blocks to fill any GPU
constexpr int64_t kNeighbours = 32;      // threads of a warp, whose reads are coalesced
constexpr int64_t kPartialMax = kBlocksEnough * kNeighbours;
Cut CutFor(int64_t outputs, int64_t count, bool across, bool whole);

template <class Body>
void Engine::Reduce(const char* name, int64_t outputs, int64_t count, bool across,
                    const Body& body) {
  if (outputs == 0) return;
  const Cut cut = CutFor(outputs, count, across, Body::kMaps);
  ReduceArgs<Body> args{body, outputs, count, cut.bits, across, cut.parts, nullptr};
  if (cut.parts > 1 || (memory_.planning() && !Body::kMaps)) {
    // Always the largest size, for planning: a shape with fewer outputs may have more parts.
    auto* partial = Work<typename Body::Value>(Scratch::kPartial, kPartialMax);
    if (partial == nullptr) return;
    args.partial = partial;
  }
  const int64_t blocks = (outputs + cut.width() - 1) / cut.width();
  Send(name, ReduceKernel<Body>(), args, static_cast<uint32_t>(blocks),
       static_cast<uint32_t>(cut.parts));
  if (cut.parts == 1) return;
  using Join = JoinParts<Body>;
  const Cut join = CutFor(outputs, cut.parts, /*across=*/true, /*whole=*/true);
  const ReduceArgs<Join> all{{body, outputs, args.partial}, outputs, cut.parts, join.bits, true};
  Send(name, ReduceKernel<Join>(), all,
       static_cast<uint32_t>((outputs + join.width() - 1) / join.width()), 1);
}

// Makes operations prepared for a shape and run often (matmul.cc, conv.cc, pool.cc). MakeConv2D
// returns null for bfloat16 tensors that must be computed in float32 (wide_conv.h).
absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Engine& engine, const MatmulShape& shape);
absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Engine& engine, const ConvShape& shape);
absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(Engine& engine, const PoolShape& shape);

// The operations of walk.cc. A Walk is a loop over axes with strides (tensor/ops.h).
void CopyWalk(Engine& engine, const Walk& walk, bool add, ConstTensor a, Tensor y);
// y (columns, rows) = a (rows, columns), for each of the matrices.
void Transpose(Engine& engine, int64_t matrices, int64_t rows, int64_t columns, ConstTensor a,
               Tensor y);
void BinaryWalk(Engine& engine, BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b,
                Tensor y);
void ScatterAdd(Engine& engine, int64_t count, int64_t width, int64_t rows, const float* ids,
                const float* dy, float* dtable);

// Operations whose result is a number, written by Finish (loss.cc).
void Loss(Engine& engine, const LossShape& shape, const float* outputs, const float* targets,
          const float* weights, float scale, float* d_outputs, double* sum);
void Penalty(Engine& engine, int64_t n, float l1, float l2, const float* x, float scale, float* dx,
             double* sum);

}  // namespace paracord::cuda
