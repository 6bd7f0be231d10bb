#include "tensor/cpu/cpu_ops.h"

#include <algorithm>
#include <deque>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/ranges.h"
#include "tensor/wide_conv.h"

namespace paracord {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector

class CpuOps : public Ops {
 public:
  explicit CpuOps(int threads) : threads_(threads) { Enter(); }

  absl::StatusOr<DeviceArray> Allocate(int64_t floats) override {
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    auto* memory = static_cast<float*>(operator new(bytes, kAlignment, std::nothrow));
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
    }
    allocated_bytes_ += static_cast<int64_t>(bytes);
    return DeviceArray(memory, [this, bytes](float* p) {
      allocated_bytes_ -= static_cast<int64_t>(bytes);
      operator delete(p, kAlignment);
    });
  }
  int64_t allocated_bytes() const override { return allocated_bytes_; }
  void KeepToPlan(bool) override {}
  void BeginPlan() override {}
  absl::Status EndPlan(MemoryPlan&) override { return absl::OkStatus(); }
  // OpenMP keeps the number of threads for each calling thread.
  void Enter() override { omp_set_num_threads(threads_); }
  absl::Status Finish() override {
    awaited_.clear();
    return std::exchange(device_.error, absl::OkStatus());
  }
  bool host_memory() const override { return true; }
  void Upload(int64_t n, const float* host, float* device) override {
    std::copy(host, host + n, device);
  }
  void UploadBeside(int64_t n, const float* host, float* device) override {
    Upload(n, host, device);
  }
  void PageLock(const void*, size_t) override {}
  std::vector<DeviceSpan> TakeSpans(bool) override { return {}; }
  void Download(int64_t n, const float* device, float* host) override {
    std::copy(device, device + n, host);
  }
  void DownloadAwaited(int64_t n, const float* device, float* host, size_t name) override {
    Download(n, device, host);
    awaited_.push_back(name);
  }
  std::optional<size_t> AwaitDownload() override {
    if (awaited_.empty()) return std::nullopt;
    const size_t name = awaited_.front();
    awaited_.pop_front();
    return name;
  }

  void AllowOperands(Operands operands) override {
    bfloat16_ = operands == Operands::kBfloat16 && has_bfloat16();
  }
  bool has_bfloat16() const override { return cpu::HasBfloat16(); }
  absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(const MatmulShape& shape) override {
    if (bfloat16_) {
      auto made = cpu::MakeMatmul(device_, threads_, shape, true);
      if (made.ok()) RETURN_IF_ERROR(Reserve(cpu::ScratchFloats(shape, true)));
      if (!absl::IsUnimplemented(made.status())) return made;
    }
    RETURN_IF_ERROR(Reserve(cpu::ScratchFloats(shape, false)));
    return cpu::MakeMatmul(device_, threads_, shape, false);
  }
  absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(const ConvShape& shape) override {
    if (bfloat16_) {
      auto made = cpu::MakeConv2D(device_, threads_, shape, true);
      if (made.ok()) RETURN_IF_ERROR(Reserve(cpu::ScratchFloats(shape)));
      if (!absl::IsUnimplemented(made.status())) return made;
    }
    if (shape.x_bfloat16 || shape.y_bfloat16) return MakeWideConv2D(*this, shape);
    const std::array<int64_t, 3> floats = cpu::WinogradFloats(threads_, shape);
    if (floats[0] == 0) return cpu::MakeConv2D(device_, threads_, shape, false);
    RETURN_IF_ERROR(Reserve(floats));
    return cpu::MakeWinograd(device_, threads_, shape);
  }
  bool ComputesBfloat16(const ConvShape& shape) override {
    return bfloat16_ && cpu::ComputesBfloat16(device_, shape);
  }
  absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(const PoolShape& shape) override {
    const int64_t outputs = shape.batch * shape.height.out * shape.width.out * shape.channels;
    ASSIGN_OR_RETURN(DeviceArray pixels, Allocate(shape.max ? outputs : 0));
    return cpu::MakePool2D(threads_, shape, std::move(pixels));
  }
  void Activate(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                Tensor y) override {
    if (x.bfloat16 != nullptr || y.bfloat16 != nullptr) {
      return Elementwise<1>(rows * columns, {x}, y, [=](int64_t n, const auto& in, float* out) {
        cpu::Activate(activation, 1, n, in[0], out);
      });
    }
    InRanges(rows, columns, [=](int64_t first, int64_t count) {
      cpu::Activate(activation, count, columns, x + first * columns, y + first * columns);
    });
  }
  void ActivateBackward(Activation activation, int64_t rows, int64_t columns, ConstTensor x,
                        ConstTensor y, ConstTensor dy, Tensor dx) override {
    if (x.bfloat16 != nullptr || y.bfloat16 != nullptr || dy.bfloat16 != nullptr ||
        dx.bfloat16 != nullptr) {
      return Elementwise<3>(rows * columns, {x, y, dy}, dx,
                            [=](int64_t n, const auto& in, float* out) {
                              cpu::ActivateBackward(activation, 1, n, in[0], in[1], in[2], out);
                            });
    }
    InRanges(rows, columns, [=](int64_t first, int64_t count) {
      const int64_t at = first * columns;
      cpu::ActivateBackward(activation, count, columns, x + at, y + at, dy + at, dx + at);
    });
  }
  void Affine(int64_t n, float scale, float offset, const float* x, float* y) override {
    InRanges(n, 1,
             [=](int64_t at, int64_t count) { cpu::Affine(count, scale, offset, x + at, y + at); });
  }
  void Add(int64_t n, ConstTensor x, Tensor y) override {
    Elementwise<2>(n, {y, x}, y, [](int64_t count, const auto& in, float* out) {
      cpu::FlatBinary(BinaryKind::kAdd, count, in[0], in[1], out);
    });
  }
  void SumRows(int64_t rows, int64_t columns, const float* x, float* sums) override {
    InRanges(columns, rows, [=](int64_t at, int64_t count) {
      cpu::SumRows(rows, columns, count, x + at, sums + at);
    });
  }
  void Dropout(uint64_t key, float rate, int64_t first, int64_t n, ConstTensor x,
               Tensor y) override {
    InRanges(n, 1, [=](int64_t at, int64_t count) {
      int64_t from = first + at;
      cpu::InFloats<1>(count, {x + at}, y + at, [&](int64_t part, const auto& in, float* out) {
        cpu::Dropout(key, rate, from, part, in[0], out);
        from += part;
      });
    });
  }
  void Convert(int64_t n, ConstTensor x, Tensor y) override {
    InRanges(n, 1, [=](int64_t at, int64_t count) { cpu::Convert(count, x + at, y + at); });
  }
  void Fill(int64_t n, float value, Tensor y) override { cpu::Fill(n, value, y); }
  void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y) override {
    // Elements of `a` may share an element of y: no threads.
    if (add) return cpu::Copy(walk, add, a, y);
    AlongFirstAxis(walk, [=](const Walk& part, int64_t at_a, int64_t, int64_t at_y) {
      cpu::Copy(part, add, a + at_a, y + at_y);
    });
  }
  void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b, Tensor y) override {
    AlongFirstAxis(walk, [=](const Walk& part, int64_t at_a, int64_t at_b, int64_t at_y) {
      cpu::Binary(kind, part, a + at_a, b + at_b, y + at_y);
    });
  }
  void Moments(const NormShape& s, ConstTensor x, float* mean, float* variance) override {
    if (s.by_column) {
      return InColumns(s, [&](int64_t first, int64_t count) {
        cpu::ColumnMoments(s, x, mean, variance, first, count);
      });
    }
    InRanges(s.rows, s.columns, [&](int64_t first, int64_t count) {
      cpu::RowMoments(s, x, mean, variance, first, count);
    });
  }
  void Normalize(const NormShape& s, ConstTensor x, const float* mean, const float* variance,
                 const float* scale, const float* offset, Tensor y) override {
    InRanges(s.rows, s.columns, [&](int64_t first, int64_t count) {
      if (s.by_column) {
        cpu::NormalizeColumns(s, x, mean, variance, scale, offset, y, first, count);
      } else {
        cpu::NormalizeRows(s, x, mean, variance, scale, offset, y, first, count);
      }
    });
  }
  void NormalizeBackward(const NormShape& s, bool constant, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         ConstTensor dy, Tensor dx, float* dscale, float* doffset) override {
    if (s.by_column) {
      return InColumns(s, [&](int64_t first, int64_t count) {
        cpu::NormColumnsBackward(s, constant, x, mean, variance, scale, offset, dy, dx, dscale,
                                 doffset, first, count);
      });
    }
    if (dscale != nullptr || doffset != nullptr) {
      InColumns(s, [&](int64_t first, int64_t count) {
        cpu::NormRowsBackwardSums(s, x, mean, variance, dy, dscale, doffset, first, count);
      });
    }
    if (dx == nullptr) return;
    InRanges(s.rows, s.columns, [&](int64_t first, int64_t count) {
      cpu::NormRowsBackward(s, constant, x, mean, variance, scale, dy, dx, first, count);
    });
  }
  void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids,
              const float* table, float* y) override {
    cpu::Gather(count, width, table_rows, ids, table, y);
  }
  void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids,
                  const float* dy, float* dtable) override {
    cpu::ScatterAdd(count, width, table_rows, ids, dy, dtable);
  }
  void CellForward(const CellShape& shape, const CellStep& step, const float* r) override {
    InRanges(shape.batch, 4 * shape.units,
             [&](int64_t first, int64_t count) { cpu::CellForward(shape, step, r, first, count); });
  }
  void CellBackward(const CellShape& shape, const CellStep& step, float* dh, float* dc, float* dz,
                    float* dr) override {
    InRanges(shape.batch, 4 * shape.units, [&](int64_t first, int64_t count) {
      cpu::CellBackward(shape, step, dh, dc, dz, dr, first, count);
    });
  }
  void MaskedSoftmax(const SoftmaxShape& shape, const float* mask, const float* x,
                     float* y) override {
    InRanges(
        shape.batch, shape.heads * shape.queries * shape.keys,
        [&](int64_t first, int64_t count) { cpu::MaskedSoftmax(shape, mask, x, y, first, count); });
  }
  void MaskedSoftmaxBackward(const SoftmaxShape& shape, const float* mask, const float* y,
                             const float* dy, float* dx) override {
    InRanges(shape.batch, shape.heads * shape.queries * shape.keys,
             [&](int64_t first, int64_t count) {
               cpu::MaskedSoftmaxBackward(shape, mask, y, dy, dx, first, count);
             });
  }
  void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x,
                float* y) override {
    cpu::AddNoise(key, stddev, first, n, x, y);
  }
  void Uniform(uint64_t key, float low, float high, int64_t first, int64_t n, float* y) override {
    cpu::Uniform(key, low, high, first, n, y);
  }
  void RandomMaps(uint64_t key, const RandomMap& map, int64_t first, int64_t batch,
                  float* maps) override {
    cpu::RandomMaps(key, map, first, batch, maps);
  }
  void Resample(const ResampleShape& s, const float* maps, const float* x, float* y) override {
    InRanges(s.batch * s.height.out, s.width.out * (s.channels + 4),
             [&](int64_t first, int64_t count) { cpu::Resample(s, maps, x, y, first, count); });
  }
  void ResizeBackward(const ResampleShape& s, const float* dy, float* dx) override {
    InRanges(s.batch, s.height.out * s.width.out * s.channels,
             [&](int64_t first, int64_t count) { cpu::ResizeBackward(s, dy, dx, first, count); });
  }
  void Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx,
               double* sum) override {
    const double penalty = cpu::Penalty(n, l1, l2, x, scale, dx);
    if (sum != nullptr) *sum = penalty;
  }
  void Loss(const LossShape& shape, const float* outputs, const float* targets,
            const float* weights, float scale, float* d_outputs, double* sum) override {
    *sum = cpu::Loss(shape, outputs, targets, weights, scale, d_outputs);
  }

 private:
  // Grows the device's scratch memories to at least these numbers of floats.
  absl::Status Reserve(const std::array<int64_t, 3>& floats) {
    for (size_t i = 0; i < floats.size(); ++i) {
      if (floats[i] <= scratch_floats_[i]) continue;
      ASSIGN_OR_RETURN(device_.scratch[i], Allocate(floats[i]));
      scratch_floats_[i] = floats[i];
    }
    return absl::OkStatus();
  }
  // Calls body for ranges of n items of `each` floats of work.
  template <class Body>
  void InRanges(int64_t n, int64_t each, const Body& body) const {
    cpu::InRanges(threads_, n, cpu::kRange / std::max<int64_t>(each, 1), body);
  }
  template <size_t kInputs, class Work>
  void Elementwise(int64_t n, const std::array<ConstTensor, kInputs>& x, Tensor y,
                   const Work& work) const {
    InRanges(n, 1, [&](int64_t at, int64_t count) {
      std::array<ConstTensor, kInputs> from;
      for (size_t k = 0; k < kInputs; ++k) from[k] = x[k] + at;
      cpu::InFloats(count, from, y + at, work);
    });
  }
  // Calls body for ranges of columns, in multiples of a cache line, to keep threads from writing to
  // a common line.
  template <class Body>
  void InColumns(const NormShape& s, const Body& body) const {
    constexpr int64_t kLine = 16;
    InRanges((s.columns + kLine - 1) / kLine, kLine * s.rows, [&](int64_t first, int64_t count) {
      const int64_t begin = first * kLine, end = std::min(s.columns, begin + count * kLine);
      body(begin, end - begin);
    });
  }
  // Calls body(part, offset in a, in b, in y) for parts of the walk along its first axis.
  template <class Body>
  void AlongFirstAxis(const Walk& walk, const Body& body) const {
    if (walk.dims.empty()) return body(walk, 0, 0, 0);
    int64_t each = 1;
    for (size_t axis = 1; axis < walk.dims.size(); ++axis) each *= walk.dims[axis];
    InRanges(walk.dims[0], each, [&](int64_t first, int64_t count) {
      if (count == walk.dims[0]) return body(walk, 0, 0, 0);
      Walk part = walk;
      part.dims[0] = count;
      body(part, first * walk.a[0], walk.b.empty() ? 0 : first * walk.b[0], first * walk.y[0]);
    });
  }

  const int threads_;
  int64_t allocated_bytes_ = 0;
  bool bfloat16_ = false;  // for products and convolutions made from now on
  cpu::Device device_;
  std::array<int64_t, 3> scratch_floats_{};  // sizes of device_.scratch
  std::deque<size_t> awaited_;               // the names of downloads since the last Finish
};

}  // namespace

double CpuLoss(const LossShape& shape, const float* outputs, const float* targets,
               const float* weights) {
  return cpu::Loss(shape, outputs, targets, weights, 0, nullptr);
}

std::unique_ptr<Ops> MakeCpuOps(int threads) { return std::make_unique<CpuOps>(threads); }

}  // namespace paracord
