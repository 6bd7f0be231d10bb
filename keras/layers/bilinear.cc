// UpSampling2D with bilinear interpolation: each axis in turn is stretched by a whole number.
// Pixels have half-pixel centres, as in tf.image.resize, and edges are repeated.
#include "keras/layers/bilinear.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// Stretches (outer, n, inner) to (outer, n * times, inner).
class Stretch {
 public:
  Stretch(Ops& ops, int64_t outer, int64_t n, int64_t inner, int64_t times)
      : ops_(ops), outer_(outer), n_(n), inner_(inner), times_(times) {}
  int64_t size() const { return outer_ * n_ * inner_; }

  // `scratch` has room for twice the input in Forward, three times in Backward.
  void Forward(const float* x, float* y, float* scratch) {
    float* const own = scratch;
    float* const other = scratch + size();
    for (int64_t r = 0; r < times_; ++r) {
      const Phase phase = At(r);
      float* const to = y + r * inner_;
      if (phase.aside == 0) {
        ops_.Copy(Steps(n_, times_), false, x, to);
        continue;
      }
      ops_.Affine(size(), 1 - phase.aside, 0, x, own);
      ops_.Affine(size(), phase.aside, 0, x, other);
      ops_.Copy(Steps(1, times_), false, x + phase.edge, to + times_ * phase.edge);
      if (n_ == 1) continue;
      Walk walk = Steps(n_ - 1, times_);
      walk.b = walk.a;
      ops_.Binary(BinaryKind::kAdd, walk, own + phase.within, other + phase.neighbours,
                  to + times_ * phase.within);
    }
  }

  void Backward(const float* dy, float* dx, float* scratch) {
    float* const all = scratch;
    float* const own = all + size();
    float* const other = own + size();
    ops_.Fill(size(), 0, dx);
    for (int64_t r = 0; r < times_; ++r) {
      const Phase phase = At(r);
      const Walk gather = Steps(n_, times_);
      ops_.Copy({gather.dims, gather.y, {}, gather.a}, false, dy + r * inner_, all);
      if (phase.aside == 0) {
        ops_.Add(size(), all, dx);
        continue;
      }
      ops_.Affine(size(), 1 - phase.aside, 0, all, own);
      ops_.Affine(size(), phase.aside, 0, all, other);
      AddTo(1, dx + phase.edge, all + phase.edge);
      if (n_ == 1) continue;
      AddTo(n_ - 1, dx + phase.within, own + phase.within);
      AddTo(n_ - 1, dx + phase.neighbours, other + phase.within);
    }
  }

 private:
  // Every output element lies between two input elements; output elements with equal offsets form a
  // phase. `aside` is the neighbour's weight; `within`, `neighbours` and `edge` are the offsets of
  // the first element with a neighbour, of its neighbour, and of the element without a neighbour.
  struct Phase {
    float aside = 0;
    int64_t within = 0, neighbours = 0, edge = 0;
  };
  Phase At(int64_t r) const {
    const double place = (static_cast<double>(r) + 0.5) / static_cast<double>(times_) - 0.5;
    Phase phase;
    phase.aside = static_cast<float>(std::abs(place));
    if (place < 0) phase.within = inner_;
    if (place > 0) phase.neighbours = inner_, phase.edge = (n_ - 1) * inner_;
    return phase;
  }
  // Walks over `count` elements of the axis, `times` apart in the output.
  Walk Steps(int64_t count, int64_t times) const {
    return {{outer_, count, inner_},
            {n_ * inner_, inner_, 1},
            {},
            {n_ * times * inner_, times * inner_, 1}};
  }
  void AddTo(int64_t count, float* y, const float* x) {
    Walk walk = Steps(count, 1);
    walk.b = walk.a;
    ops_.Binary(BinaryKind::kAdd, walk, y, x, y);
  }

  Ops& ops_;
  const int64_t outer_, n_, inner_, times_;
};

class BilinearKernel : public Kernel {
 public:
  BilinearKernel(const Stretch& rows, const Stretch& columns, DeviceArray between,
                 DeviceArray scratch)
      : rows_(rows),
        columns_(columns),
        between_(std::move(between)),
        scratch_(std::move(scratch)) {}
  void Forward(const ForwardCall& call) override {
    rows_.Forward(call.inputs[0], between_.get(), scratch_.get());
    columns_.Forward(between_.get(), call.output, scratch_.get());
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    columns_.Backward(call.d_output, between_.get(), scratch_.get());
    rows_.Backward(between_.get(), call.d_inputs[0], scratch_.get());
  }

 private:
  Stretch rows_, columns_;
  const DeviceArray between_;  // (batch, stretched rows, columns, channels), or the gradient
  const DeviceArray scratch_;
};

class BilinearLayer : public Layer {
 public:
  explicit BilinearLayer(LayerConfig& config) : Layer(config), size_(config.Pair("size", 2)) {
    config.Choice("data_format", "channels_last", {"channels_last"});
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape& in = inputs[0];
    if (in.size() == 3) return Shape{in[0] * size_.first, in[1] * size_.second, in[2]};
    return absl::InvalidArgumentError(
        absl::StrCat("needs an input of 3 axes, not ", ShapeName(in)));
  }
  int64_t Arithmetic(std::span<const Shape>, const Shape& output) const override {
    return 4 * Elements(output);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape& in = inputs[0];
    const int64_t height = in[0] * size_.first;
    const Stretch rows(ops, batch, in[0], in[1] * in[2], size_.first);
    const Stretch columns(ops, batch * height, in[1], in[2], size_.second);
    ASSIGN_OR_RETURN(auto between, ops.Allocate(columns.size()));
    ASSIGN_OR_RETURN(auto scratch, ops.Allocate(3 * std::max(rows.size(), columns.size())));
    return std::make_unique<BilinearKernel>(rows, columns, std::move(between), std::move(scratch));
  }

 private:
  const std::pair<int64_t, int64_t> size_;
};

}  // namespace

std::unique_ptr<Layer> MakeBilinear(LayerConfig& config) {
  return std::make_unique<BilinearLayer>(config);
}

}  // namespace paracord
