// What the operations on a GPU share: the runtime, streams (one computes, one copies each way, one
// adds up over a group), the first error, memory (memory.h, staging.h), and the one way to launch a
// body. Owned by CudaOps; one thread at a time. All work on tensors is in order on the computing
// stream; it waits for what is copied to the device, and what is copied from it waits for it, by
// events.
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

// Memory that an operation works in; those that live at the same time have different names.
enum class Scratch {
  kPartial,
  kResult,
  kRows,
  kMore,
  kKeys,
  kKeysToo,
  kLeft,   // operand of a product, in 16 bits
  kRight,  // the other
  kFactors,
  kRandom,
  kWorkspace,
  kCount
};

// Of its spans.
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
  // False after an error, and while memory is planned: nothing is asked of the device.
  bool runs() const { return ok() && !memory_.planning(); }
  // Asks something of the computing stream: ask() does, and gives a status.
  template <class Ask>
  bool Do(const char* what, const Ask& ask) {
    if (!runs()) return false;
    spans_.Begin(what, kCompute, compute_);
    Try(what, ask());
    spans_.End(kCompute, compute_);
    return ok();
  }
  // Keeps the first error; after one nothing is asked of the device until Finish.
  bool Try(const char* what, const absl::Status& status);
  absl::Status Enter();
  absl::Status Finish();

  // A warning in the log, of what is slow: the first.
  void SaySlow(const std::string& what);

  // For the products and convolutions that are made from now on.
  void AllowOperands(Operands operands) { operands_ = operands; }
  Operands operands() const { return operands_; }

  absl::StatusOr<DeviceArray> Allocate(int64_t floats);
  int64_t allocated_bytes() const { return allocated_bytes_; }
  // As in ops.h.
  void KeepToPlan(bool keep) { keep_to_plan_ = keep; }
  // As in ops.h. Memory to work in is part of the plan.
  void BeginPlan() { memory_.BeginPlan(); }
  absl::Status EndPlan(MemoryPlan& plan);
  // As in ops.h.
  void Upload(const void* host, void* device, size_t bytes);
  void UploadBeside(const void* host, void* device, size_t bytes);
  void Download(const void* device, void* host, size_t bytes);
  void DownloadAwaited(const void* device, void* host, size_t bytes, size_t name);
  std::optional<size_t> AwaitDownload();
  // As in group_ops.h.
  void AllReduce(std::span<const DeviceFloats> arrays);
  void Pin(const void* host, size_t bytes) { staging_.Pin(host, bytes); }
  std::vector<DeviceSpan> TakeSpans(bool note) { return spans_.Take(note); }
  // Null after an error. What was there is lost.
  template <class T>
  T* Work(Scratch name, int64_t count) {
    return static_cast<T*>(WorkBytes(name, static_cast<size_t>(count) * sizeof(T)));
  }
  // What convolutions that are made now may work in.
  size_t workspace_max() const;
  // On the device, for a number that will be in `host` after Finish. Null after an error.
  double* Result(double* host);

  // A number that varies between steps that are the same otherwise, on the device, for what is
  // asked for next. Null after an error.
  const uint64_t* Key(uint64_t key);

  // body(i) for every i below n.
  template <class Body>
  void Map(const char* name, int64_t n, const Body& body) {
    const uint32_t blocks =
        BlocksFor(n, OfColumns<Body> ? 1 << 12 : (InSteps<Body> ? 1 << 13 : 1 << 20));
    MapArgs<Body> args{body, n};
    if constexpr (OfColumns<Body>) args.repeats = n > 0 && body.Repeats(int64_t{blocks} * kThreads);
    Send(name, MapKernel<Body>(), args, blocks, 1);
  }
  // Each output from `count` elements. `across`: elements of neighbouring outputs are neighbours.
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
    __builtin_clear_padding(&args);  // so that the same arguments are the same bytes (replay.h)
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
  Stream reduce_ = nullptr;  // from the first AllReduce on
  Event computed_ = nullptr, uploaded_ = nullptr, reduced_ = nullptr;
  bool group_lost_ = false;
  std::vector<Event> host_events_;
  // Since the last Finish.
  std::vector<Awaited> awaited_;
  size_t next_awaited_ = 0;
  std::vector<Staged> downloads_;  // that are not yet where they belong
  std::vector<double*> results_;   // the same, by place on the device
  const double* asked_ = nullptr;  // where the first `asked_count_` of them will be on the host
  size_t asked_count_ = 0;
  std::vector<double> unpinned_results_;
  absl::Status error_;
  Operands operands_ = Operands::kFloat32;
  bool keep_to_plan_ = false, said_slow_ = false;
  std::array<Buffer, static_cast<size_t>(Scratch::kCount)> work_;
};

// How a reduction is cut: by the shape alone, so that every GPU adds in the same order.
struct Cut {
  int bits = 0;
  int parts = 1;
  int width() const { return 1 << bits; }
};
constexpr int64_t kBlocksEnough = 1024;  // that fill any GPU
constexpr int64_t kNeighbours = 32;      // threads that read together
constexpr int64_t kPartialMax = kBlocksEnough * kNeighbours;
Cut CutFor(int64_t outputs, int64_t count, bool across, bool whole);

template <class Body>
void Engine::Reduce(const char* name, int64_t outputs, int64_t count, bool across,
                    const Body& body) {
  if (outputs == 0) return;
  const Cut cut = CutFor(outputs, count, across, Body::kMaps);
  ReduceArgs<Body> args{body, outputs, count, cut.bits, across, cut.parts, nullptr};
  if (cut.parts > 1 || (memory_.planning() && !Body::kMaps)) {
    // Fewer outputs may come in more parts: it is the most of all shapes.
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

// Made for a shape, run often (matmul.cc, conv.cc, pool.cc). A convolution of bfloat16 is null
// where it is to be computed by one of float32 (wide_conv.h).
absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Engine& engine, const MatmulShape& shape);
absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Engine& engine, const ConvShape& shape);
absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(Engine& engine, const PoolShape& shape);

// Along a walk (walk.cc).
void CopyWalk(Engine& engine, const Walk& walk, bool add, ConstTensor a, Tensor y);
// y (columns, rows) = a (rows, columns) of each of the matrices.
void Transpose(Engine& engine, int64_t matrices, int64_t rows, int64_t columns, ConstTensor a,
               Tensor y);
void BinaryWalk(Engine& engine, BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b,
                Tensor y);
void ScatterAdd(Engine& engine, int64_t count, int64_t width, int64_t rows, const float* ids,
                const float* dy, float* dtable);

// Their numbers are there after Finish (loss.cc).
void Loss(Engine& engine, const LossShape& shape, const float* outputs, const float* targets,
          const float* weights, float scale, float* d_outputs, double* sum);
void Penalty(Engine& engine, int64_t n, float l1, float l2, const float* x, float scale, float* dx,
             double* sum);

}  // namespace paracord::cuda
