// cumsum(x, axis): running sums along an axis, by doubling: after pass k each element holds the sum
// of the 2^k elements up to itself. n elements need log2(n) passes, and rounding errors of long
// sums stay small.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

struct Direction {
  bool reverse = false;    // sums from each element to the end
  bool exclusive = false;  // without the element itself
};

class CumsumKernel : public Kernel {
 public:
  CumsumKernel(Ops& ops, const AxisSpan& span, Direction direction, DeviceArray first,
               DeviceArray second)
      : ops_(ops),
        span_(span),
        n_(span.outer * span.count * span.inner),
        direction_(direction),
        first_(std::move(first)),
        second_(std::move(second)) {}
  void Forward(const ForwardCall& call) override {
    Sum(call.inputs[0], direction_.reverse, call.output);
  }
  // An element contributes to the sums of all later elements.
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    Sum(call.d_output, !direction_.reverse, call.d_inputs[0]);
  }

 private:
  // y[t] = or += x[t - by] along the axis, or x[t + by] in reverse.
  void Shift(const float* x, int64_t by, bool reverse, bool add, float* y) {
    const int64_t away = by * span_.inner, each = span_.count * span_.inner;
    const Walk walk =
        Shorten({{span_.outer, (span_.count - by) * span_.inner}, {each, 1}, {}, {each, 1}});
    ops_.Copy(walk, add, reverse ? x + away : x, reverse ? y : y + away);
  }
  void Sum(const float* x, bool reverse, float* y) {
    const Walk whole{{n_}, {1}, {}, {1}};
    float *now = first_.get(), *next = second_.get();
    ops_.Copy(whole, false, x, now);
    for (int64_t by = 1; by < span_.count; by *= 2) {
      ops_.Copy(whole, false, now, next);
      Shift(now, by, reverse, /*add=*/true, next);
      std::swap(now, next);
    }
    if (!direction_.exclusive) return ops_.Copy(whole, false, now, y);
    ops_.Fill(n_, 0, y);
    if (span_.count > 1) Shift(now, 1, reverse, /*add=*/false, y);
  }

  Ops& ops_;
  const AxisSpan span_;
  const int64_t n_;
  const Direction direction_;
  const DeviceArray first_, second_;
};

class CumsumLayer : public Layer {
 public:
  explicit CumsumLayer(LayerConfig& config) : Layer(config) {
    if (config.Value("axis") == nullptr) config.Fail("axis", "must be given: the batch stays");
    axis_ = config.AnyInteger("axis", -1);
    direction_.reverse = config.Flag("reverse", false);
    direction_.exclusive = config.Flag("exclusive", false);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(AxisOf(inputs[0], axis_).status());
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    const int64_t n = batch * Elements(inputs[0]);
    ASSIGN_OR_RETURN(DeviceArray first, ops.Allocate(n));
    ASSIGN_OR_RETURN(DeviceArray second, ops.Allocate(n));
    return std::make_unique<CumsumKernel>(ops, SpanOf(batch, inputs[0], axis), direction_,
                                          std::move(first), std::move(second));
  }

 private:
  int64_t axis_ = -1;
  Direction direction_;
};

}  // namespace

std::unique_ptr<Layer> MakeCumsum(LayerConfig& config) {
  return std::make_unique<CumsumLayer>(config);
}

}  // namespace paracord
