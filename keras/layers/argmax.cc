// argmax(x, axis) and argmin(x, axis): the index along an axis of the largest or smallest element;
// among equals the first.
#include <numeric>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/reduction.h"

namespace paracord {
namespace {

// Indices are numbered from `count` down to 1, to give the first of equal elements the largest
// number.
class ArgExtremeKernel : public Kernel {
 public:
  // `along` walks over x and the numbers of the places.
  ArgExtremeKernel(Ops& ops, Reduction r, Walk along, Largest largest, bool smallest,
                   DeviceArray wide, DeviceArray numbers)
      : ops_(ops),
        r_(std::move(r)),
        along_(std::move(along)),
        largest_(std::move(largest)),
        smallest_(smallest),
        wide_(std::move(wide)),
        numbers_(std::move(numbers)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Affine(r_.n, smallest_ ? -1.f : 1.f, 0, call.inputs[0], wide_.get());
    largest_.Run(wide_.get(), call.output);
    ops_.Binary(BinaryKind::kGreaterEqual, r_.by, wide_.get(), call.output, wide_.get());
    ops_.Binary(BinaryKind::kMultiply, along_, wide_.get(), numbers_.get(), wide_.get());
    largest_.Run(wide_.get(), call.output);
    ops_.Affine(r_.sums, -1, static_cast<float>(r_.count), call.output, call.output);
  }
  void Backward(const BackwardCall&) override {}

 private:
  Ops& ops_;
  const Reduction r_;
  const Walk along_;
  Largest largest_;
  const bool smallest_;
  const DeviceArray wide_;     // (n)
  const DeviceArray numbers_;  // (count)
};

class ArgExtremeLayer : public Layer {
 public:
  explicit ArgExtremeLayer(LayerConfig& config)
      : Layer(config),
        smallest_(config.class_name() == "Argmin"),
        keep_(config.Flag("keepdims", false)) {
    config.Ignore("output_type");  // the integers of TensorFlow's call
    if (config.Value("axis") == nullptr) config.Fail("axis", "must be given: the batch stays");
    axis_ = config.AnyInteger("axis", -1);
  }
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    Shape output = inputs[0];
    output[axis] = 1;
    if (!keep_) output.erase(output.begin() + static_cast<std::ptrdiff_t>(axis));
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, AxisOf(inputs[0], axis_));
    Shape kept = inputs[0];
    kept[axis] = 1;
    std::vector<bool> reduced(kept.size(), false);
    reduced[axis] = true;
    Reduction r(batch, inputs[0], kept);

    Walk along;
    along.dims = WithBatch(batch, inputs[0]);
    along.a = along.y = RowMajor(along.dims);
    along.b.assign(along.dims.size(), 0);
    along.b[axis + 1] = 1;
    std::vector<float> numbers(static_cast<size_t>(r.count));
    std::iota(numbers.rbegin(), numbers.rend(), 1.f);
    ASSIGN_OR_RETURN(DeviceArray places, ops.Allocate(r.count));
    ops.Upload(r.count, numbers.data(), places.get());

    ASSIGN_OR_RETURN(DeviceArray wide, ops.Allocate(r.n));
    ASSIGN_OR_RETURN(Largest largest, Largest::Make(ops, batch, inputs[0], reduced));
    return std::make_unique<ArgExtremeKernel>(ops, std::move(r), Shorten(std::move(along)),
                                              std::move(largest), smallest_, std::move(wide),
                                              std::move(places));
  }

 private:
  const bool smallest_, keep_;
  int64_t axis_ = -1;
};

}  // namespace

std::unique_ptr<Layer> MakeArgExtreme(LayerConfig& config) {
  return std::make_unique<ArgExtremeLayer>(config);
}

}  // namespace paracord
