#include "tensor/cuda/cuda_ops.h"

#include "common/mix.h"
#include "common/status_macros.h"
#include "tensor/cuda/cell.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/engine.h"
#include "tensor/cuda/norm.h"
#include "tensor/cuda/replay.h"
#include "tensor/cuda/resample.h"
#include "tensor/cuda/softmax.h"
#include "tensor/cuda/walk.h"
#include "tensor/wide_conv.h"

namespace paracord::cuda {
namespace {

class CudaOps : public Ops, public GroupOps {
 public:
  explicit CudaOps(std::unique_ptr<Runtime> runtime) : engine_(std::move(runtime)) {}
  absl::Status Init() { return engine_.Init(); }

  absl::StatusOr<DeviceArray> Allocate(int64_t floats) override { return engine_.Allocate(floats); }
  int64_t allocated_bytes() const override { return engine_.allocated_bytes(); }
  void KeepToPlan(bool keep) override { engine_.KeepToPlan(keep); }
  void BeginPlan() override { engine_.BeginPlan(); }
  absl::Status EndPlan(MemoryPlan& plan) override { return engine_.EndPlan(plan); }
  void Enter() override { engine_.Enter().IgnoreError(); }
  absl::Status Finish() override { return engine_.Finish(); }
  bool host_memory() const override { return false; }
  void Upload(int64_t n, const float* host, float* device) override {
    engine_.Upload(host, device, static_cast<size_t>(n) * sizeof(float));
  }
  void UploadBeside(int64_t n, const float* host, float* device) override {
    engine_.UploadBeside(host, device, static_cast<size_t>(n) * sizeof(float));
  }
  void AllReduce(std::span<const DeviceFloats> arrays) override { engine_.AllReduce(arrays); }
  void Abort() override { engine_.runtime().AbortGroup(); }
  void PageLock(const void* host, size_t bytes) override { engine_.PageLock(host, bytes); }
  std::vector<DeviceSpan> TakeSpans(bool note) override { return engine_.TakeSpans(note); }
  void Download(int64_t n, const float* device, float* host) override {
    engine_.Download(device, host, static_cast<size_t>(n) * sizeof(float));
  }
  void DownloadAwaited(int64_t n, const float* device, float* host, size_t name) override {
    engine_.DownloadAwaited(device, host, static_cast<size_t>(n) * sizeof(float), name);
  }
  std::optional<size_t> AwaitDownload() override { return engine_.AwaitDownload(); }

  void AllowOperands(Operands operands) override { engine_.AllowOperands(operands); }
  bool has_bfloat16() const override { return engine_.runtime().has_bfloat16(); }
  absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(const MatmulShape& shape) override {
    return cuda::MakeMatmul(engine_, shape);
  }
  absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(const ConvShape& shape) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Conv2D> conv, cuda::MakeConv2D(engine_, shape));
    if (conv == nullptr) return MakeWideConv2D(*this, shape);
    return conv;
  }
  bool ComputesBfloat16(const ConvShape&) override {
    return engine_.operands() == Operands::kBfloat16 && has_bfloat16();
  }
  absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(const PoolShape& shape) override {
    return cuda::MakePool2D(engine_, shape);
  }

  void Activate(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                Tensor y) override;
  void ActivateBackward(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                        ConstTensor y, ConstTensor dy, Tensor dx) override;
  void Affine(int64_t n, float scale, float offset, const float* x, float* y) override {
    engine_.Map("affine", n, AffineBody{scale, offset, x, y});
  }
  void Add(int64_t n, ConstTensor x, Tensor y) override { engine_.Map("add", n, AddBody{x, y}); }
  void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) override {
    engine_.Reduce("sum of rows", columns, rows, true, SumRowsBody{columns, ConstTensor(x), sums});
  }
  void Dropout(uint64_t key, float rate, int64_t first, int64_t n, ConstTensor x,
               Tensor y) override {
    const auto dropped = static_cast<uint64_t>(static_cast<double>(rate) * 4294967296.0);
    const uint64_t* const mixed = engine_.Key(Mix64(key));
    if (mixed == nullptr) return;
    engine_.Map("dropout", n, DropoutBody{mixed, dropped, 1.f / (1.f - rate), first, x, y});
  }
  void Fill(int64_t n, float value, Tensor y) override {
    engine_.Map("fill", n, FillBody{value, y});
  }
  void Convert(int64_t n, ConstTensor x, Tensor y) override {
    engine_.Map("convert", n, ConvertBody{x, y});
  }
  void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y) override {
    CopyWalk(engine_, walk, add, a, y);
  }
  void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b, Tensor y) override {
    BinaryWalk(engine_, kind, walk, a, b, y);
  }

  void Moments(const NormShape& s, ConstTensor x, float* mean, float* variance) override {
    const auto [groups, each] = Groups(s);
    engine_.Reduce("moments", groups, each, s.by_column, MomentsBody{s, x, mean, variance});
  }
  void Normalize(const NormShape& s, ConstTensor x, const float* mean, const float* variance,
                 const float* scale, const float* offset, Tensor y) override {
    engine_.Map("normalize", s.rows * s.columns,
                NormalizeBody{s, {x, mean, variance, scale, offset}, y});
  }
  void NormalizeBackward(const NormShape& shape, bool constant, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         ConstTensor dy, Tensor dx, float* dscale, float* doffset) override;

  void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids,
              const float* table, float* y) override {
    engine_.Map("gather", count * width, GatherBody{width, table_rows, ids, table, y});
  }
  void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                  const float* dy, float* dtable) override {
    cuda::ScatterAdd(engine_, count, width, table_rows, ids, dy, dtable);
  }

  void CellForward(const CellShape& s, const CellStep& step, const float* r) override {
    const bool rows = OfRows(s.activation) || OfRows(s.recurrent_activation);
    engine_.Map("cell", rows ? s.batch : s.batch * s.units,
                CellForwardBody{s, rows, Tensors(step), r});
  }
  void CellBackward(const CellShape& s, const CellStep& step, float* dh, float* dc, float* dz,
                    float* dr) override {
    const bool rows = OfRows(s.activation) || OfRows(s.recurrent_activation);
    engine_.Map("cell, gradient", rows ? s.batch : s.batch * s.units,
                CellBackwardBody{s, rows, Tensors(step), dh, dc, dz, dr});
  }

  void MaskedSoftmax(const SoftmaxShape& s, const float* mask, const float* x, float* y) override {
    engine_.Reduce("softmax", s.batch * s.heads * s.queries, s.keys, false,
                   MaskedSoftmaxBody{s, mask, x, y});
  }
  void MaskedSoftmaxBackward(const SoftmaxShape& s, const float* mask, const float* y,
                             const float* dy, float* dx) override {
    engine_.Reduce("softmax, gradient", s.batch * s.heads * s.queries, s.keys, false,
                   MaskedSoftmaxBackwardBody{s, mask, y, dy, dx});
  }

  void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x,
                float* y) override {
    const uint64_t* const mixed = engine_.Key(Mix64(key));
    if (mixed == nullptr) return;
    engine_.Map("noise", n, NoiseBody{mixed, stddev, first, x, y});
  }
  void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y) override {
    const uint64_t* const mixed = engine_.Key(Mix64(key));
    if (mixed == nullptr) return;
    engine_.Map("uniform numbers", n, UniformBody{mixed, low, high, first, y});
  }
  void RandomMaps(uint64_t key, const RandomMap& map, int64_t first, int64_t batch,
                  float* maps) override {
    const uint64_t* const mixed = engine_.Key(Mix64(key));
    if (mixed == nullptr) return;
    engine_.Map("maps of images", batch, RandomMapBody{mixed, map, first, maps});
  }
  void Resample(const ResampleShape& s, const float* maps, const float* x, float* y) override {
    engine_.Map("resampling", s.batch * s.height.out * s.width.out * s.channels,
                ResampleBody{s, maps, x, y});
  }
  void ResizeBackward(const ResampleShape& s, const float* dy, float* dx) override {
    engine_.Map("resizing, gradient", s.batch * s.height.in * s.width.in * s.channels,
                ResizeBackwardBody{s, dy, dx});
  }
  void Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx,
               double* sum) override {
    cuda::Penalty(engine_, n, l1, l2, x, scale, dx, sum);
  }
  void Loss(const LossShape& shape, const float* outputs, const float* targets,
            const float* weights, float scale, float* d_outputs, double* sum) override {
    cuda::Loss(engine_, shape, outputs, targets, weights, scale, d_outputs, sum);
  }

 private:
  static std::pair<int64_t, int64_t> Groups(const NormShape& s) {
    return s.by_column ? std::pair(s.columns, s.rows) : std::pair(s.rows, s.columns);
  }
  static CellTensors Tensors(const CellStep& step) {
    return {step.mask, step.h0, step.c0, step.z, step.kept, step.h, step.c};
  }

  Engine engine_;
};

void CudaOps::Activate(Activation p, int64_t rows, int64_t columns, ConstTensor x, Tensor y) {
  if (p.kind == ActivationKind::kSparsemax) {
    return engine_.Map("sparsemax", rows, SparsemaxBody{columns, x.float32, y.float32});
  }
  if (OfRows(p)) {
    const bool log = p.kind == ActivationKind::kLogSoftmax;
    return engine_.Reduce("softmax", rows, columns, false,
                          SoftmaxBody{columns, log, x.float32, y.float32});
  }
  engine_.Map("activation", rows * columns, ActivateBody{p, x, y});
}

void CudaOps::ActivateBackward(Activation p, int64_t rows, int64_t columns, ConstTensor x,
                               ConstTensor y, ConstTensor dy, Tensor dx) {
  if (p.kind == ActivationKind::kSparsemax) {
    return engine_.Map(
        "sparsemax, gradient", rows,
        SparsemaxBackwardBody{columns, x.float32, y.float32, dy.float32, dx.float32});
  }
  if (OfRows(p)) {
    const bool log = p.kind == ActivationKind::kLogSoftmax;
    return engine_.Reduce("softmax, gradient", rows, columns, false,
                          SoftmaxBackwardBody{columns, log, y.float32, dy.float32, dx.float32});
  }
  // The caller passes no x if the slope is a function of y alone.
  engine_.Map("activation, gradient", rows * columns,
              ActivateBackwardBody{p, x == nullptr ? y : x, y, dy, dx});
}

void CudaOps::NormalizeBackward(const NormShape& s, bool constant, ConstTensor x, const float* mean,
                                const float* variance, const float* scale, const float* offset,
                                ConstTensor dy, Tensor dx, float* dscale, float* doffset) {
  const char* const what = "normalize, gradient";
  const NormTensors of{x, mean, variance, scale, offset};
  float *sums = doffset, *dots = dscale;
  const bool needs_sums = s.by_column && dx != nullptr && !constant;
  if (needs_sums && sums == nullptr) sums = engine_.Work<float>(Scratch::kRows, s.columns);
  if (needs_sums && dots == nullptr) dots = engine_.Work<float>(Scratch::kMore, s.columns);
  if (sums != nullptr || dots != nullptr) {
    engine_.Reduce(what, s.columns, s.rows, true, NormColumnSumsBody{s, of, dy, sums, dots});
  }
  if (dx == nullptr) return;
  if (s.by_column) {
    engine_.Map(what, s.rows * s.columns,
                NormColumnBackwardBody{s, constant, of, dy, sums, dots, dx});
  } else {
    engine_.Reduce(what, s.rows, s.columns, false,
                   NormRowBackwardBody{s, constant, of, dy.float32, dx.float32});
  }
}

}  // namespace

absl::StatusOr<Replica> MakeReplica(std::unique_ptr<Runtime> runtime, bool graphs) {
  if (graphs) runtime = MakeReplay(std::move(runtime));
  auto ops = std::make_unique<CudaOps>(std::move(runtime));
  RETURN_IF_ERROR(ops->Init());
  GroupOps* const group = ops.get();
  return Replica{std::move(ops), group};
}

absl::StatusOr<std::unique_ptr<Ops>> MakeOps(std::unique_ptr<Runtime> runtime, bool graphs) {
  ASSIGN_OR_RETURN(Replica replica, MakeReplica(std::move(runtime), graphs));
  return std::move(replica.ops);
}

}  // namespace paracord::cuda
