#include "keras/layers/mask_fill.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

class MaskFillKernel : public Kernel {
 public:
  MaskFillKernel(Ops& ops, int64_t rows, int64_t columns, float outside, DeviceArray fill)
      : ops_(ops),
        rows_(rows),
        outside_(outside),
        by_row_{{rows, columns}, {columns, 1}, {1, 0}, {columns, 1}},
        fill_(std::move(fill)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Binary(BinaryKind::kKeep, by_row_, call.inputs[0], call.inputs[1], call.output);
    if (outside_ == 0) return;
    ops_.Affine(rows_, -outside_, outside_, call.inputs[1], fill_.get());
    ops_.Binary(BinaryKind::kAdd, by_row_, call.output, fill_.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Binary(BinaryKind::kKeep, by_row_, call.d_output, call.inputs[1], call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const int64_t rows_;
  const float outside_;
  const Walk by_row_;
  const DeviceArray fill_;  // (rows): `outside` where the mask is zero
};

class MaskFillLayer : public Layer {
 public:
  MaskFillLayer(const Layer& of, float outside) : Layer(of), outside_(outside) {}
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape& x = inputs[0];
    if (!x.empty() && inputs[1] == Shape(x.begin(), x.end() - 1)) return x;
    return WrongMask(inputs[1], x);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t rows = batch * Elements(inputs[1]);
    ASSIGN_OR_RETURN(auto fill, ops.Allocate(rows));
    return std::make_unique<MaskFillKernel>(ops, rows, inputs[0].back(), outside_, std::move(fill));
  }

 private:
  const float outside_;
};

}  // namespace

std::unique_ptr<Layer> MakeMaskFill(const Layer& of, float outside) {
  return std::make_unique<MaskFillLayer>(of, outside);
}

}  // namespace paracord
