// Attention and AdditiveAttention: a head without projections. Scores are products of queries and
// keys, or sums over tanh(query + key).
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/attention_call.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

struct ScorePlan {
  enum class Mode { kDot, kConcat, kAdditive };
  Mode mode = Mode::kDot;
  bool scale =
      false;  // a variable: of the scores, of query + key (kConcat), of a width (kAdditive)
  bool causal = false, return_scores = false, separate_key = false;
  bool query_mask = false, value_mask = false;
  float dropout = 0;
  int64_t batch = 0, queries = 0, keys = 0, width = 0, out = 0;

  bool sums() const { return mode != Mode::kDot; }
  int64_t scores() const { return queries * keys; }  // of one example
  int64_t pairs() const { return batch * scores(); }
  int64_t own() const { return queries * out; }
  int64_t each() const { return own() + (return_scores ? scores() : 0); }
};

// Computes the scores and their gradients.
class Scores {
 public:
  Scores(Ops& ops, const ScorePlan& plan) : ops_(ops), p_(plan) {}
  absl::Status Prepare() {
    const int64_t b = p_.batch, t = p_.queries, s = p_.keys, d = p_.width;
    ASSIGN_OR_RETURN(scratch_, ops_.Allocate(p_.sums() ? p_.pairs() * d : p_.pairs()));
    if (!p_.sums()) {
      ASSIGN_OR_RETURN(forward_, ops_.MakeMatmul({t, d, s, false, true, false, false, b}));
      ASSIGN_OR_RETURN(query_, ops_.MakeMatmul({t, s, d, false, false, false, false, b}));
      ASSIGN_OR_RETURN(key_, ops_.MakeMatmul({s, t, d, true, false, false, false, b}));
      ASSIGN_OR_RETURN(raw_, ops_.Allocate(p_.pairs()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(forward_, ops_.MakeMatmul({p_.pairs(), d, 1, false, false, false, false}));
    ASSIGN_OR_RETURN(query_, ops_.MakeMatmul({1, p_.pairs(), d, false, false, false, false}));
    ASSIGN_OR_RETURN(raw_, ops_.Allocate(p_.pairs() * d));
    ASSIGN_OR_RETURN(weights_, ops_.Allocate(d));
    ASSIGN_OR_RETURN(d_weights_, ops_.Allocate(d));
    const std::vector<int64_t> dense{t * s * d, s * d, d, 1};
    pair_ = {{b, t, s, d}, {t * d, d, 0, 1}, {s * d, 0, d, 1}, dense};
    return absl::OkStatus();
  }

  void Forward(const float* q, const float* k, std::span<const float* const> parameters,
               float* scores) {
    if (!p_.sums()) {
      forward_->Run(q, k, nullptr, raw_.get());
      return Scale(p_.pairs(), raw_.get(), p_.scale ? parameters[0] : nullptr, scores);
    }
    const int64_t n = p_.pairs() * p_.width;
    ops_.Binary(BinaryKind::kAdd, pair_, q, k, raw_.get());
    Scale(n, raw_.get(), p_.mode == ScorePlan::Mode::kConcat && p_.scale ? parameters[0] : nullptr,
          raw_.get());
    ops_.Activate({ActivationKind::kTanh}, 1, n, raw_.get(), raw_.get());
    if (p_.mode == ScorePlan::Mode::kConcat) {
      ops_.Copy({{p_.width}, {0}, {}, {1}}, false, parameters[p_.scale ? 1 : 0], weights_.get());
    } else if (p_.scale) {
      ops_.Affine(p_.width, 1, 0, parameters[0], weights_.get());
    } else {
      ops_.Fill(p_.width, 1, weights_.get());
    }
    forward_->Run(raw_.get(), weights_.get(), nullptr, scores);
  }

  // `d` is the gradient of the scores; dq and dk may be null.
  void Backward(const BackwardCall& call, const float* q, const float* k, float* d, float* dq,
                float* dk) {
    if (!p_.sums()) return DotBackward(call, q, k, d, dq, dk);
    const int64_t n = p_.pairs() * p_.width;
    const bool concat = p_.mode == ScorePlan::Mode::kConcat;
    query_->Run(d, raw_.get(), nullptr, d_weights_.get());
    if (concat) {
      Sum(p_.width, d_weights_.get(), call.d_parameters[p_.scale ? 1 : 0]);
    } else if (p_.scale && call.d_parameters[0] != nullptr) {
      ops_.Affine(p_.width, 1, 0, d_weights_.get(), call.d_parameters[0]);
    }
    float* du = scratch_.get();
    ops_.Binary(BinaryKind::kMultiply, {{p_.pairs(), p_.width}, {1, 0}, {0, 1}, {p_.width, 1}}, d,
                weights_.get(), du);
    ops_.ActivateBackward({ActivationKind::kTanh}, 1, n, nullptr, raw_.get(), du, du);
    if (concat && p_.scale) {
      ops_.Binary(BinaryKind::kAdd, pair_, q, k, raw_.get());
      ops_.Binary(BinaryKind::kMultiply, {{n}, {1}, {1}, {1}}, du, raw_.get(), raw_.get());
      Sum(n, raw_.get(), call.d_parameters[0]);
      Scale(n, du, call.parameters[0], du);
    }
    SumPairs(pair_.a, du, p_.batch * p_.queries * p_.width, dq);
    SumPairs(pair_.b, du, p_.batch * p_.keys * p_.width, dk);
  }

 private:
  void DotBackward(const BackwardCall& call, const float* q, const float* k, float* d, float* dq,
                   float* dk) {
    if (p_.scale) {
      ops_.Binary(BinaryKind::kMultiply, {{p_.pairs()}, {1}, {1}, {1}}, d, raw_.get(),
                  scratch_.get());
      Sum(p_.pairs(), scratch_.get(), call.d_parameters[0]);
      Scale(p_.pairs(), d, call.parameters[0], d);
    }
    if (dq != nullptr) query_->Run(d, k, nullptr, dq);
    if (dk != nullptr) key_->Run(d, q, nullptr, dk);
  }
  // Computes y = scale x; a null scale is 1.
  void Scale(int64_t n, const float* x, const float* scale, float* y) {
    if (scale != nullptr) {
      ops_.Binary(BinaryKind::kMultiply, {{n}, {1}, {0}, {1}}, x, scale, y);
    } else if (x != y) {
      ops_.Affine(n, 1, 0, x, y);
    }
  }
  void Sum(int64_t n, const float* x, float* sum) {
    if (sum != nullptr) ops_.SumRows(n, 1, x, sum);
  }
  void SumPairs(const std::vector<int64_t>& steps, const float* du, int64_t n, float* to) {
    if (to == nullptr) return;
    ops_.Fill(n, 0, to);
    ops_.Copy({pair_.dims, pair_.y, {}, steps}, true, du, to);
  }

  Ops& ops_;
  const ScorePlan p_;
  Walk pair_;  // adds query and key
  std::unique_ptr<Matmul> forward_, query_, key_;
  DeviceArray raw_;  // the products, or tanh for each pair
  DeviceArray scratch_, weights_, d_weights_;
};

class ScoreAttentionKernel : public Kernel {
 public:
  ScoreAttentionKernel(Ops& ops, const ScorePlan& plan) : ops_(ops), p_(plan), scored_(ops, plan) {
    softmax_.batch = p_.batch;
    softmax_.queries = p_.queries;
    softmax_.keys = p_.keys;
    softmax_.causal = p_.causal;
    softmax_.masked = MaskedScore::kLowered;
  }
  absl::Status Prepare() {
    const int64_t b = p_.batch, t = p_.queries, s = p_.keys;
    RETURN_IF_ERROR(scored_.Prepare());
    ASSIGN_OR_RETURN(weigh_, ops_.MakeMatmul({t, s, p_.out, false, false, false, false, b}));
    ASSIGN_OR_RETURN(d_weigh_, ops_.MakeMatmul({t, p_.out, s, false, true, false, false, b}));
    ASSIGN_OR_RETURN(d_value_, ops_.MakeMatmul({s, t, p_.out, true, false, false, false, b}));
    ASSIGN_OR_RETURN(scores_, ops_.Allocate(p_.pairs()));
    ASSIGN_OR_RETURN(d_scores_, ops_.Allocate(p_.pairs()));
    ASSIGN_OR_RETURN(own_, ops_.Allocate(b * p_.own()));
    if (p_.dropout > 0) {
      ASSIGN_OR_RETURN(dropped_, ops_.Allocate(p_.pairs()));
    }
    if (p_.value_mask) {
      ASSIGN_OR_RETURN(mask_, ops_.Allocate(p_.pairs()));
    }
    if (!p_.separate_key) {
      ASSIGN_OR_RETURN(d_key_, ops_.Allocate(b * s * p_.width));
    }
    return absl::OkStatus();
  }

  void Forward(const ForwardCall& call) override {
    const int64_t b = p_.batch, t = p_.queries, s = p_.keys;
    if (p_.value_mask) {
      ops_.Copy({{b, t, s}, {s, 0, 1}, {}, {t * s, s, 1}}, false, call.inputs[Inputs() + 1],
                mask_.get());
    }
    scored_.Forward(call.inputs[0], Key(call.inputs), call.parameters, scores_.get());
    ops_.MaskedSoftmax(softmax_, mask_.get(), scores_.get(), scores_.get());
    const float* weights = scores_.get();
    drew_ = dropped_ != nullptr && call.training;
    if (drew_) {
      ops_.Dropout(call.key, p_.dropout, call.first_example * p_.scores(), p_.pairs(),
                   scores_.get(), dropped_.get());
      weights = dropped_.get();
    }
    weigh_->Run(weights, call.inputs[1], nullptr, own_.get());
    const Walk out{{b, t, p_.out}, {p_.own(), p_.out, 1}, {t, 1, 0}, {p_.each(), p_.out, 1}};
    if (p_.query_mask) {
      ops_.Binary(BinaryKind::kMultiply, out, own_.get(), call.inputs[Inputs()], call.output);
    } else {
      ops_.Copy({out.dims, out.a, {}, out.y}, false, own_.get(), call.output);
    }
    if (!p_.return_scores) return;
    ops_.Copy({{b, p_.scores()}, {p_.scores(), 1}, {}, {p_.each(), 1}}, false, weights,
              call.output + p_.own());
  }

  void Backward(const BackwardCall& call) override {
    const int64_t b = p_.batch, t = p_.queries;
    const Walk out{{b, t, p_.out}, {p_.each(), p_.out, 1}, {t, 1, 0}, {p_.own(), p_.out, 1}};
    if (p_.query_mask) {
      ops_.Binary(BinaryKind::kMultiply, out, call.d_output, call.inputs[Inputs()], own_.get());
    } else {
      ops_.Copy({out.dims, out.a, {}, out.y}, false, call.d_output, own_.get());
    }
    const float* weights = drew_ ? dropped_.get() : scores_.get();
    d_weigh_->Run(own_.get(), call.inputs[1], nullptr, d_scores_.get());
    if (float* d = call.d_inputs[1]) d_value_->Run(weights, own_.get(), nullptr, d);
    if (p_.return_scores) {
      ops_.Copy({{b, p_.scores()}, {p_.each(), 1}, {}, {p_.scores(), 1}}, true,
                call.d_output + p_.own(), d_scores_.get());
    }
    if (drew_) {
      ops_.Dropout(call.key, p_.dropout, call.first_example * p_.scores(), p_.pairs(),
                   d_scores_.get(), d_scores_.get());
    }
    ops_.MaskedSoftmaxBackward(softmax_, mask_.get(), scores_.get(), d_scores_.get(),
                               d_scores_.get());
    float* const dv = call.d_inputs[1];
    float* dk = p_.separate_key ? call.d_inputs[2].float32 : dv == nullptr ? nullptr : d_key_.get();
    scored_.Backward(call, call.inputs[0], Key(call.inputs), d_scores_.get(), call.d_inputs[0], dk);
    if (!p_.separate_key && dv != nullptr) ops_.Add(b * p_.keys * p_.width, dk, dv);
  }

 private:
  size_t Inputs() const { return p_.separate_key ? 3 : 2; }
  const float* Key(std::span<const ConstTensor> inputs) const {
    return inputs[p_.separate_key ? 2 : 1];
  }

  Ops& ops_;
  const ScorePlan p_;
  SoftmaxShape softmax_;
  Scores scored_;
  std::unique_ptr<Matmul> weigh_, d_weigh_, d_value_;
  DeviceArray scores_, d_scores_, dropped_, mask_;  // (batch, queries, keys)
  bool drew_ = false;  // random numbers were drawn in the last forward pass
  DeviceArray own_;    // (batch, queries, out), used if the scores are returned
  DeviceArray d_key_;  // for a value that serves as key
};

// The inputs are query, value and perhaps key, then as many masks.
class ScoreAttentionLayer : public Layer {
 public:
  ScoreAttentionLayer(LayerConfig& config, bool additive) : Layer(config), additive_(additive) {
    plan_.scale = config.Flag("use_scale", additive);
    if (additive) {
      plan_.mode = ScorePlan::Mode::kAdditive;
    } else if (config.Choice("score_mode", "dot", {"dot", "concat"}) == "concat") {
      plan_.mode = ScorePlan::Mode::kConcat;
    }
    const double rate = config.Number("dropout", 0);
    if (!(rate >= 0 && rate < 1)) config.Fail("dropout", "must be at least 0 and below 1");
    plan_.dropout = static_cast<float>(rate);
    config.Ignore("seed");
    ReadAttentionCall(config, plan_.causal, plan_.return_scores);
  }
  MaskRule mask_rule() const override { return MaskRule::kPass; }
  bool takes_masks() const override { return true; }
  size_t most_inputs() const override { return 3; }
  absl::StatusOr<Shape> ConstantShape(size_t, const Shape& constant, size_t) const override {
    return ShapeOfOne(constant);
  }
  std::vector<Shape> parts() const override {
    if (!plan_.return_scores) return {};
    return {output_, scores_};
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const ScorePlan plan, PlanFor(inputs, 1));
    Initializer ones, glorot;
    ones.set_name("ones");
    glorot.set_name("glorot_uniform");
    size_t index = 0;
    if (plan.scale) {
      RETURN_IF_ERROR(Declare(index++, "scale", additive_ ? Shape{plan.width} : Shape(),
                              additive_ ? glorot : ones));
    }
    if (plan.mode == ScorePlan::Mode::kConcat) {
      RETURN_IF_ERROR(Declare(index, "concat_score_weight", {}, ones));
    }
    output_ = {plan.queries, plan.out};
    scores_ = {plan.queries, plan.keys};
    RETURN_IF_ERROR(CheckElements(scores_));
    if (!plan.return_scores) return output_;
    return Shape{plan.each()};
  }
  int64_t Arithmetic(std::span<const Shape> inputs, const Shape&) const override {
    const auto plan = PlanFor(inputs, 1);
    return plan.ok() ? plan->scores() * (plan->width + plan->out) : 0;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const ScorePlan plan, PlanFor(inputs, batch));
    RETURN_IF_ERROR(CheckElements({batch, plan.queries, plan.keys, plan.sums() ? plan.width : 1}));
    auto kernel = std::make_unique<ScoreAttentionKernel>(ops, plan);
    RETURN_IF_ERROR(kernel->Prepare());
    return kernel;
  }

 private:
  absl::StatusOr<ScorePlan> PlanFor(std::span<const Shape> inputs, int64_t batch) const {
    const size_t count = inputs.size() / 2;
    if (count < 2 || count > 3) return absl::InvalidArgumentError("needs a query and a value");
    for (const Shape& input : inputs.first(count)) {
      if (input.size() == 2 && input[0] > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("needs inputs of (steps, features), not ", ShapeName(input)));
    }
    const Shape &query = inputs[0], &value = inputs[1], &key = inputs[count - 1];
    if (key[0] != value[0] || key[1] != query[1]) {
      return absl::InvalidArgumentError(absl::StrCat("its inputs' shapes ", ShapeName(query), ", ",
                                                     ShapeName(value), " and ", ShapeName(key),
                                                     " do not go together"));
    }
    ScorePlan plan = plan_;
    plan.separate_key = count == 3;
    plan.query_mask = !inputs[count].empty();
    plan.value_mask = !inputs[count + 1].empty();
    plan.batch = batch;
    plan.queries = query[0];
    plan.keys = key[0];
    plan.width = query[1];
    plan.out = value[1];
    for (size_t i = 0; i < 2; ++i) {
      const Shape& mask = inputs[count + i];
      if (mask.empty() || mask == Shape{inputs[i][0]}) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a mask of ", ShapeName(mask), " does not fit ", inputs[i][0], " steps"));
    }
    return plan;
  }

  const bool additive_;
  ScorePlan plan_;  // the part independent of the inputs
  Shape output_, scores_;
};

}  // namespace

std::unique_ptr<Layer> MakeScoreAttention(LayerConfig& config) {
  return std::make_unique<ScoreAttentionLayer>(config, config.class_name() == "AdditiveAttention");
}

}  // namespace paracord
