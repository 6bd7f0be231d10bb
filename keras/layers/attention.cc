// MultiHeadAttention: reads config and call, declares variables, shapes and masks.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/attention_call.h"
#include "keras/layers/attention_kernel.h"
#include "keras/layers/initializer_config.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

// The inputs are query, value and perhaps key, then as many masks (of queries or keys), and perhaps
// an attention mask over both.
class AttentionLayer : public Layer {
 public:
  explicit AttentionLayer(LayerConfig& config)
      : Layer(config),
        kernel_initializer_(config.InitializerOf("kernel_initializer", "glorot_uniform")),
        bias_initializer_(config.InitializerOf("bias_initializer", "zeros")) {
    plan_.heads = config.RequiredInteger("num_heads", 1);
    plan_.key_width = config.RequiredInteger("key_dim", 1);
    plan_.value_width = config.Integer("value_dim", plan_.key_width, 1);
    plan_.bias = config.Flag("use_bias", true);
    const double rate = config.Number("dropout", 0);
    if (!(rate >= 0 && rate < 1)) config.Fail("dropout", "must be at least 0 and below 1");
    plan_.dropout = static_cast<float>(rate);
    if (const nlohmann::json* shape = config.Value("output_shape")) {
      output_shape_ = shape->is_array() ? config.Integers("output_shape")
                                        : Shape{config.Integer("output_shape", 1, 1)};
      for (const int64_t dim : output_shape_) {
        if (dim < 1) config.Fail("output_shape", "must be sizes");
      }
    }
    if (const nlohmann::json* axes = config.Value("attention_axes")) {
      axes_ = AxesOf(*axes).size();  // the last axes (axis_order.cc)
      if (axes_ == 0) config.Fail("attention_axes", "must be axes");
    }
    const bool robust = config.Flag("softmax_robust_masking", false);
    for (const char* key : {"query_shape", "value_shape", "key_shape", "seed"}) config.Ignore(key);
    if (config.activity().has_value()) {
      config.Fail("activity_regularizer", "is not supported here");
    }
    ReadAttentionCall(config, plan_.causal, plan_.return_scores);
    keras2_ = config.keras2();
    if (keras2_) {
      plan_.masked = robust ? MaskedScore::kReplaced : MaskedScore::kLowered;
    } else if (plan_.dropout > 0 || plan_.return_scores) {
      plan_.masked = MaskedScore::kZero;  // Keras then computes the softmax differently
    }
  }

  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool takes_masks() const override { return true; }
  size_t most_inputs() const override { return 3; }
  std::vector<std::string_view> mask_arguments() const override {
    if (keras2_) return {"attention_mask"};
    return {"query_mask", "value_mask", "key_mask", "attention_mask"};
  }
  // Keras 3 removes masks from the inputs. Under a mixed policy Keras casts, and strips only the
  // copies.
  bool removes_masks() const override { return !keras2_ && operands() == Operands::kFloat32; }
  std::vector<Shape> parts() const override {
    if (!plan_.return_scores) return {};
    return {output_, scores_};
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const AttentionPlan plan, PlanFor(inputs, 1));
    RETURN_IF_ERROR(MasksOf(inputs).status());
    const int64_t h = plan.heads, k = plan.key_width, v = plan.value_width;
    Shape out = OutputWidth(inputs);
    size_t index = 0;
    const auto declare = [&](const char* name, Shape kernel, const Shape& bias) -> absl::Status {
      MakeOperand(index);
      const int64_t fan_out = Elements(bias), fan_in = Elements(kernel) / fan_out;
      RETURN_IF_ERROR(
          Declare(index++, absl::StrCat(name, "/kernel"), kernel,
                  keras2_ ? kernel_initializer_ : WithFans(kernel_initializer_, fan_in, fan_out)));
      if (!plan.bias) return absl::OkStatus();
      return Declare(index++, absl::StrCat(name, "/bias"), bias, bias_initializer_);
    };
    RETURN_IF_ERROR(declare("query", {plan.query_in, h, k}, {h, k}));
    RETURN_IF_ERROR(declare("key", {plan.key_in, h, k}, {h, k}));
    RETURN_IF_ERROR(declare("value", {plan.value_in, h, v}, {h, v}));
    Shape kernel{h, v};
    kernel.insert(kernel.end(), out.begin(), out.end());
    RETURN_IF_ERROR(declare("attention_output", kernel, out));
    const Shape steps(inputs[0].begin(), inputs[0].end() - 1);
    const auto first = static_cast<std::ptrdiff_t>(steps.size() - AxesIn(inputs[0]));
    output_ = steps;
    output_.insert(output_.end(), out.begin(), out.end());
    scores_ = Shape(steps.begin(), steps.begin() + first);
    scores_.push_back(h);
    scores_.insert(scores_.end(), steps.begin() + first, steps.end());
    scores_.insert(scores_.end(), inputs[1].begin() + first, inputs[1].end() - 1);
    RETURN_IF_ERROR(CheckElements(scores_));
    if (!plan.return_scores) return output_;
    return Shape{Elements(output_) + Elements(scores_)};
  }

  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    const absl::StatusOr<AttentionPlan> plan = PlanFor(inputs, 1);
    if (!plan.ok()) return 0;
    const int64_t k = plan->key_width, v = plan->value_width;
    return plan->inner * plan->heads *
           (plan->queries * (plan->query_in * k + plan->out * v) +
            plan->keys * (plan->key_in * k + plan->value_in * v) +
            plan->queries * plan->keys * (k + v));
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const AttentionPlan plan, PlanFor(inputs, batch));
    ASSIGN_OR_RETURN(std::vector<AttentionMask> masks, MasksOf(inputs));
    return MakeAttentionKernel(ops, plan, std::move(masks));
  }

 private:
  bool keras2_ = false;
  Shape OutputWidth(std::span<const Shape> inputs) const {
    return output_shape_.empty() ? Shape{inputs[0].back()} : output_shape_;
  }

  // The number of attending axes, the last before the features; further axes count as batch.
  size_t AxesIn(const Shape& input) const { return axes_ == 0 ? input.size() - 1 : axes_; }

  absl::StatusOr<AttentionPlan> PlanFor(std::span<const Shape> inputs, int64_t batch) const {
    const size_t count = inputs.size() / 2;  // the number of inputs without masks
    if (count < 2 || count > 3) return absl::InvalidArgumentError("needs a query and a value");
    const Shape& query = inputs[0];
    const size_t axes = AxesIn(query);
    for (const Shape& input : inputs.first(count)) {
      if (input.size() == query.size() && input.size() > axes && axes > 0 && Elements(input) > 0)
        continue;
      return absl::InvalidArgumentError(
          absl::StrCat("needs inputs of (steps, features), not ", ShapeName(input)));
    }
    const Shape &key = inputs[count - 1], &value = inputs[1];
    const auto inner = static_cast<std::ptrdiff_t>(query.size() - 1 - axes);
    if (!std::equal(key.begin(), key.end() - 1, value.begin())) {
      return absl::InvalidArgumentError(absl::StrCat("key and value have the shapes ",
                                                     ShapeName(key), " and ", ShapeName(value),
                                                     ", which are not of the same steps"));
    }
    if (!std::equal(query.begin(), query.begin() + inner, value.begin())) {
      return absl::InvalidArgumentError(absl::StrCat("query and value have the shapes ",
                                                     ShapeName(query), " and ", ShapeName(value),
                                                     ", which differ beside the attention_axes"));
    }
    AttentionPlan plan = plan_;
    if (plan.causal && query.size() > 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "use_causal_mask needs inputs of (steps, features), not ", ShapeName(query)));
    }
    plan.inner = Elements(Shape(query.begin(), query.begin() + inner));
    plan.batch = batch * plan.inner;
    plan.queries = Elements(Shape(query.begin() + inner, query.end() - 1));
    plan.keys = Elements(Shape(key.begin() + inner, key.end() - 1));
    plan.query_in = query.back();
    plan.value_in = value.back();
    plan.key_in = key.back();
    plan.separate_key = count == 3;
    const Shape out = OutputWidth(inputs);
    RETURN_IF_ERROR(CheckElements(out));
    plan.out = Elements(out);
    return plan;
  }

  absl::StatusOr<std::vector<AttentionMask>> MasksOf(std::span<const Shape> inputs) const {
    const size_t count = inputs.size() / 2;
    const int64_t queries = inputs[0][0], keys = inputs[1][0];
    std::vector<AttentionMask> masks;
    const bool any = std::any_of(inputs.begin() + static_cast<std::ptrdiff_t>(count), inputs.end(),
                                 [](const Shape& mask) { return !mask.empty(); });
    if (any && inputs[0].size() > 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "takes masks over inputs of (steps, features) only, not of ", ShapeName(inputs[0])));
    }
    const auto add = [&](size_t input, int64_t mask_queries, int64_t mask_keys) -> absl::Status {
      masks.push_back({input, mask_queries, mask_keys});
      const bool fits = (mask_queries == 1 || mask_queries == queries) &&
                        (mask_keys == 1 || mask_keys == keys) &&
                        mask_queries * mask_keys == Elements(inputs[input]);
      if (fits) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("a mask of ", ShapeName(inputs[input]),
                                                     " does not fit ", queries, " queries and ",
                                                     keys, " keys"));
    };
    for (size_t i = 0; i < count; ++i) {
      if (inputs[count + i].empty()) continue;
      RETURN_IF_ERROR(i == 0 ? add(count, queries, 1) : add(count + i, 1, keys));
    }
    if (inputs.size() % 2 == 0) return masks;
    const Shape& both = inputs.back();  // (queries, keys), perhaps with an axis for heads
    const size_t rank = both.size();
    if (rank < 2 || rank > 3 || (rank == 3 && both[0] != 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its attention_mask must be of (queries, keys), not ", ShapeName(both)));
    }
    RETURN_IF_ERROR(add(inputs.size() - 1, both[rank - 2], both[rank - 1]));
    return masks;
  }

  const Initializer kernel_initializer_, bias_initializer_;
  size_t axes_ = 0;     // attending axes, the last before the features; 0: all
  Shape output_shape_;  // empty: the query's width
  AttentionPlan plan_;  // the part independent of the inputs
  Shape output_, scores_;
};

}  // namespace

std::unique_ptr<Layer> MakeAttention(LayerConfig& config) {
  return std::make_unique<AttentionLayer>(config);
}

}  // namespace paracord
