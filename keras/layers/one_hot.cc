// one_hot(ids, n): 1 at the id's index along a new axis of n elements; zeros for an id out of
// range. sequence_mask(lengths, n): 1 at the first `length` places.
#include <numeric>

#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

class OneHotKernel : public Kernel {
 public:
  // `places`: 0, 1, ..., b of the walk.
  OneHotKernel(Ops& ops, BinaryKind kind, Walk walk, DeviceArray places)
      : ops_(ops), kind_(kind), walk_(std::move(walk)), places_(std::move(places)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Binary(kind_, walk_, call.inputs[0], places_.get(), call.output);
  }
  void Backward(const BackwardCall&) override {}

 private:
  Ops& ops_;
  const BinaryKind kind_;
  const Walk walk_;
  const DeviceArray places_;
};

class OneHotLayer : public Layer {
 public:
  // `key`: how many places there are. `kind`: of the input and the number of a place.
  OneHotLayer(LayerConfig& config, const char* key, BinaryKind kind)
      : Layer(config),
        kind_(kind),
        classes_(config.RequiredInteger(key, 1)),
        axis_(config.AnyInteger("axis", -1)) {}
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, Axis(inputs[0]));
    return Insert(inputs[0], axis, classes_);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const size_t axis, Axis(inputs[0]));
    const Shape ids = WithBatch(batch, inputs[0]);
    Walk walk;
    walk.dims = Insert(ids, axis + 1, classes_);
    walk.a = Insert(RowMajor(ids), axis + 1, 0);
    walk.b = Insert(std::vector<int64_t>(ids.size(), 0), axis + 1, 1);
    walk.y = RowMajor(walk.dims);
    std::vector<float> numbers(static_cast<size_t>(classes_));
    std::iota(numbers.begin(), numbers.end(), 0.f);
    ASSIGN_OR_RETURN(DeviceArray places, ops.Allocate(classes_));
    ops.Upload(classes_, numbers.data(), places.get());
    return std::make_unique<OneHotKernel>(ops, kind_, Shorten(std::move(walk)), std::move(places));
  }

 private:
  static std::vector<int64_t> Insert(std::vector<int64_t> all, size_t at, int64_t one) {
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), one);
    return all;
  }
  absl::StatusOr<size_t> Axis(const Shape& input) const {
    return AxisOf(input, axis_, static_cast<int64_t>(input.size()) + 2);
  }

  const BinaryKind kind_;
  const int64_t classes_, axis_;
};

}  // namespace

std::unique_ptr<Layer> MakeOneHot(LayerConfig& config) {
  return std::make_unique<OneHotLayer>(config, config.keras2() ? "depth" : "num_classes",
                                       BinaryKind::kEqual);
}
std::unique_ptr<Layer> MakeSequenceMask(LayerConfig& config) {
  return std::make_unique<OneHotLayer>(config, "maxlen", BinaryKind::kGreater);
}

}  // namespace paracord
