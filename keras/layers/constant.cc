// Constants: numbers of the model file in place of a tensor.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

class ConstantLayer : public Layer {
 public:
  ConstantLayer(const Layer& of, Shape shape, std::vector<float> values)
      : Layer(of), shape_(std::move(shape)), values_(std::move(values)) {}
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape>) override { return shape_; }
  int64_t Arithmetic(std::span<const Shape>, const Shape&) const override { return 0; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape>) override {
    const auto n = static_cast<int64_t>(values_.size());
    ASSIGN_OR_RETURN(DeviceArray values, ops.Allocate(n));
    ops.Upload(n, values_.data(), values.get());
    return std::make_unique<ConstantKernel>(ops, batch, n, std::move(values));
  }

 private:
  class ConstantKernel : public Kernel {
   public:
    ConstantKernel(Ops& ops, int64_t batch, int64_t n, DeviceArray values)
        : ops_(ops), walk_{{batch, n}, {0, 1}, {}, {n, 1}}, values_(std::move(values)) {}
    void Forward(const ForwardCall& call) override {
      ops_.Copy(walk_, false, values_.get(), call.output);
    }
    void Backward(const BackwardCall&) override {}

   private:
    Ops& ops_;
    const Walk walk_;
    const DeviceArray values_;
  };

  const Shape shape_;
  const std::vector<float> values_;
};

}  // namespace

std::unique_ptr<Layer> MakeConstant(const Layer& of, Shape shape, std::vector<float> values) {
  return std::make_unique<ConstantLayer>(of, std::move(shape), std::move(values));
}

absl::StatusOr<Shape> ShapeOfOne(const Shape& constant) {
  if (!constant.empty() && constant[0] == 1) return Shape(constant.begin() + 1, constant.end());
  return absl::InvalidArgumentError(
      absl::StrCat("takes no constant of shape ", ShapeName(constant),
                   ": its first axis is that of the batch, and must be 1"));
}

absl::StatusOr<Shape> AlignedShape(const Shape& constant, size_t rank) {
  if (constant.size() == rank + 1) return ShapeOfOne(constant);
  if (constant.size() > rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes no constant of shape ", ShapeName(constant),
                     ", which has more axes than the other operand with its batch"));
  }
  Shape shape(rank - constant.size(), 1);
  shape.insert(shape.end(), constant.begin(), constant.end());
  return shape;
}

absl::StatusOr<Shape> Layer::ConstantShape(size_t, const Shape& constant, size_t) const {
  return absl::InvalidArgumentError(
      absl::StrCat("takes no constant, but is given one of shape ", ShapeName(constant)));
}

}  // namespace paracord
