// EmbedReduce of Keras-RS: the sum of the rows of an example's ids, perhaps weighted, over a
// divisor.
#include <cmath>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/table_layer.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

enum class Combiner { kSum, kMean, kSqrtN };

struct ReducePlan {
  Combiner combiner = Combiner::kMean;
  int64_t batch = 0, ids = 1, width = 0;  // ids of an example
  bool weighted = false;
  int64_t rows() const { return batch * ids; }
};

// The divisor of each example: the sum of the weights, or the root of the sum of their squares.
class Divisors {
 public:
  static absl::StatusOr<Divisors> Make(Ops& ops, const ReducePlan& plan) {
    Divisors made(ops, plan);
    ASSIGN_OR_RETURN(made.values_, ops.Allocate(plan.batch));
    ASSIGN_OR_RETURN(made.squares_, ops.Allocate(plan.rows()));
    return made;
  }
  const float* values() const { return values_.get(); }

  void Compute(const float* weights) {
    const float* summed = weights;
    if (plan_.combiner == Combiner::kSqrtN) {
      ops_->Binary(BinaryKind::kMultiply, {{plan_.rows()}, {1}, {1}, {1}}, weights, weights,
                   squares_.get());
      summed = squares_.get();
    }
    ops_->Fill(plan_.batch, 0, values_.get());
    ops_->Copy({{plan_.batch, plan_.ids}, {plan_.ids, 1}, {}, {1, 0}}, true, summed, values_.get());
    if (plan_.combiner == Combiner::kSqrtN) {
      ops_->Activate({ActivationKind::kPower, 1, 0.5f}, 1, plan_.batch, values_.get(),
                     values_.get());
    }
  }
  // y = x / divisor for rows of `columns`, and 0 where the divisor is 0.
  void Divide(int64_t columns, const float* x, float* y) {
    const Walk walk{{plan_.batch, columns}, {columns, 1}, {1, 0}, {columns, 1}};
    ops_->Binary(BinaryKind::kDivide, walk, x, values_.get(), y);
    ops_->Binary(BinaryKind::kKeep, walk, y, values_.get(), y);
  }

 private:
  Divisors(Ops& ops, const ReducePlan& plan) : ops_(&ops), plan_(plan) {}

  Ops* ops_;
  ReducePlan plan_;
  DeviceArray values_, squares_;
};

struct ReduceScratch {
  DeviceArray rows;       // (batch, ids, width): the rows of the ids
  DeviceArray weighted;   // (batch, ids, width)
  DeviceArray d_output;   // (batch, width): the gradient of the sum
  DeviceArray d_divisor;  // (batch)
};

class ReduceKernel : public Kernel {
 public:
  using RowsThere = std::function<int64_t()>;
  ReduceKernel(Ops& ops, const ReducePlan& plan, RowsThere rows_there, ReduceScratch scratch,
               std::optional<Divisors> divisors)
      : ops_(ops),
        plan_(plan),
        rows_there_(std::move(rows_there)),
        scratch_(std::move(scratch)),
        divisors_(std::move(divisors)) {}

  void Forward(const ForwardCall& call) override {
    float* const rows = scratch_.rows.get();
    ops_.Gather(plan_.rows(), plan_.width, rows_there_(), call.inputs[0], call.parameters[0], rows);
    const float* summed = rows;
    if (plan_.weighted) {
      ops_.Binary(BinaryKind::kMultiply, ByWeight(), rows, call.inputs[1], scratch_.weighted.get());
      summed = scratch_.weighted.get();
    }
    ops_.Fill(plan_.batch * plan_.width, 0, call.output);
    ops_.Copy(Summing(), true, summed, call.output);
    if (divisors_.has_value()) {
      divisors_->Compute(call.inputs[1]);
      divisors_->Divide(plan_.width, call.output, call.output);
    } else if (Scale() != 1) {
      ops_.Affine(plan_.batch * plan_.width, Scale(), 0, call.output, call.output);
    }
  }

  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] != nullptr) ops_.Fill(plan_.rows(), 0, call.d_inputs[0]);
    const bool unused = call.d_inputs.size() > 1 && !plan_.weighted;
    if (unused && call.d_inputs[1] != nullptr) ops_.Fill(plan_.rows(), 0, call.d_inputs[1]);
    const float* d_sum = call.d_output;
    if (divisors_.has_value()) {
      divisors_->Divide(plan_.width, call.d_output, scratch_.d_output.get());
      d_sum = scratch_.d_output.get();
    }
    if (plan_.weighted && call.d_inputs[1] != nullptr) WeightGradient(call, d_sum);
    if (call.d_parameters[0] == nullptr) return;
    float* const d_rows = scratch_.weighted.get();
    if (plan_.weighted) {
      ops_.Binary(BinaryKind::kMultiply, FromSum(), call.inputs[1], d_sum, d_rows);
    } else {
      const Walk walk = Summing();
      ops_.Copy({walk.dims, walk.y, {}, walk.a}, false, d_sum, d_rows);
      if (Scale() != 1) ops_.Affine(plan_.rows() * plan_.width, Scale(), 0, d_rows, d_rows);
    }
    ops_.ScatterAdd(plan_.rows(), plan_.width, rows_there_(), call.inputs[0], d_rows,
                    call.d_parameters[0]);
  }

 private:
  // The factor of a sum without weights.
  float Scale() const {
    const auto n = static_cast<float>(plan_.ids);
    if (plan_.weighted || plan_.combiner == Combiner::kSum) return 1;
    return plan_.combiner == Combiner::kMean ? 1 / n : 1 / std::sqrt(n);
  }
  Shape Dims() const { return {plan_.batch, plan_.ids, plan_.width}; }
  std::vector<int64_t> OfRows() const { return {plan_.ids * plan_.width, plan_.width, 1}; }
  std::vector<int64_t> OfWeights() const { return {plan_.ids, 1, 0}; }
  std::vector<int64_t> OfSums() const { return {plan_.width, 0, 1}; }
  Walk Summing() const { return {Dims(), OfRows(), {}, OfSums()}; }
  Walk ByWeight() const { return {Dims(), OfRows(), OfWeights(), OfRows()}; }
  Walk FromSum() const { return {Dims(), OfWeights(), OfSums(), OfRows()}; }

  // The output is s / c, with s the sum of weight times row, and c the divisor. A weight's gradient
  // is row . ds minus its effect on c times (output . ds).
  void WeightGradient(const BackwardCall& call, const float* d_sum) {
    float* const d = call.d_inputs[1];
    float* const products = scratch_.weighted.get();
    ops_.Binary(BinaryKind::kMultiply, {Dims(), OfRows(), OfSums(), OfRows()}, scratch_.rows.get(),
                d_sum, products);
    ops_.Fill(plan_.rows(), 0, d);
    ops_.Copy({Dims(), OfRows(), {}, OfWeights()}, true, products, d);
    if (!divisors_.has_value()) return;
    float* const d_divisor = scratch_.d_divisor.get();
    const int64_t n = plan_.batch * plan_.width;
    ops_.Binary(BinaryKind::kMultiply, {{n}, {1}, {1}, {1}}, call.output, d_sum, products);
    ops_.Fill(plan_.batch, 0, d_divisor);
    ops_.Copy({{plan_.batch, plan_.width}, {plan_.width, 1}, {}, {1, 0}}, true, products,
              d_divisor);
    const Walk each{{plan_.batch, plan_.ids}, {plan_.ids, 1}, {1, 0}, {plan_.ids, 1}};
    if (plan_.combiner == Combiner::kMean) {
      return ops_.Binary(BinaryKind::kSubtract, each, d, d_divisor, d);
    }
    divisors_->Divide(1, d_divisor, d_divisor);
    ops_.Binary(BinaryKind::kMultiply, each, call.inputs[1], d_divisor, products);
    ops_.Binary(BinaryKind::kSubtract, {{plan_.rows()}, {1}, {1}, {1}}, d, products, d);
  }

  Ops& ops_;
  const ReducePlan plan_;
  const RowsThere rows_there_;
  const ReduceScratch scratch_;
  std::optional<Divisors> divisors_;
};

class EmbedReduceLayer : public Layer, public TableLayer {
 public:
  explicit EmbedReduceLayer(LayerConfig& config)
      : Layer(config),
        rows_(config.RequiredInteger("input_dim", 1, kTableRowsMax)),
        width_(config.RequiredInteger("output_dim", 1)),
        initializer_(config.InitializerOf("embeddings_initializer", "random_uniform")) {
    const std::string combiner = config.Choice("combiner", "mean", {"sum", "mean", "sqrtn"});
    if (combiner == "sum") combiner_ = Combiner::kSum;
    if (combiner == "sqrtn") combiner_ = Combiner::kSqrtN;
    config.Flag("mask_zero", false);  // a reduction leaves no steps to mask
  }

  size_t most_inputs() const override { return 2; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(Declare(0, "embeddings", {rows_, width_}, initializer_));
    const Shape& ids = inputs[0];
    if (ids.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("takes one id or a list of ids, not examples of ", ShapeName(ids)));
    }
    if (inputs.size() > 1 && inputs[1] != ids) {
      return absl::InvalidArgumentError(
          absl::StrCat("has weights of ", ShapeName(inputs[1]), " for ids of ", ShapeName(ids)));
    }
    return Shape{width_};
  }
  std::optional<int64_t> ids_below() const override {
    return growing_ ? std::nullopt : std::optional(rows_);
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    return Elements(inputs[0]) * width_;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ReducePlan plan{combiner_, batch, Elements(inputs[0]), width_, inputs.size() > 1};
    // A single row is not reduced: its weight matters only for a sum.
    if (inputs[0].empty() && combiner_ != Combiner::kSum) plan.weighted = false;
    ReduceScratch scratch;
    ASSIGN_OR_RETURN(scratch.rows, ops.Allocate(plan.rows() * width_));
    ASSIGN_OR_RETURN(scratch.weighted, ops.Allocate(plan.rows() * width_));
    std::optional<Divisors> divisors;
    if (plan.weighted && combiner_ != Combiner::kSum) {
      ASSIGN_OR_RETURN(divisors, Divisors::Make(ops, plan));
      ASSIGN_OR_RETURN(scratch.d_output, ops.Allocate(batch * width_));
      ASSIGN_OR_RETURN(scratch.d_divisor, ops.Allocate(batch));
    }
    return std::make_unique<ReduceKernel>(
        ops, plan, [this] { return RowsThere(rows_); }, std::move(scratch), std::move(divisors));
  }

 private:
  const int64_t rows_, width_;
  const Initializer initializer_;
  Combiner combiner_ = Combiner::kMean;
};

}  // namespace

std::unique_ptr<Layer> MakeEmbedReduce(LayerConfig& config) {
  return std::make_unique<EmbedReduceLayer>(config);
}

}  // namespace paracord
