#include "keras/layers/attention_kernel.h"

#include <array>
#include <cmath>
#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

// Computes x W + b over rows, where the result's columns are heads: forward into (batch, heads,
// steps, width), backward from there.
class Projection {
 public:
  absl::Status Prepare(Ops& ops, int64_t batch, int64_t steps, int64_t in, int64_t heads,
                       int64_t width, bool bias) {
    ops_ = &ops;
    rows_ = batch * steps;
    columns_ = heads * width;
    to_heads_ = {{batch, heads, steps, width},
                 {steps * columns_, width, columns_, 1},
                 {},
                 {steps * columns_, steps * width, width, 1}};
    ASSIGN_OR_RETURN(forward_, ops.MakeMatmul({rows_, in, columns_, false, false, bias, false}));
    ASSIGN_OR_RETURN(kernel_, ops.MakeMatmul({in, rows_, columns_, true, false, false, false}));
    ASSIGN_OR_RETURN(input_, ops.MakeMatmul({rows_, columns_, in, false, true, false, false}));
    ASSIGN_OR_RETURN(heads_, ops.Allocate(rows_ * columns_));
    return absl::OkStatus();
  }
  void Forward(const float* x, ConstTensor kernel, const float* bias, float* flat) {
    forward_->Run(x, kernel, bias, flat);
    ops_->Copy(to_heads_, false, flat, heads_.get());
  }
  // The result of Forward, later overwritten by its gradient.
  float* heads() { return heads_.get(); }
  // Writes all gradients except null ones. `flat` is scratch memory.
  void Backward(const float* x, ConstTensor kernel, float* d_kernel, float* d_bias, float* dx,
                float* flat) {
    ops_->Copy({to_heads_.dims, to_heads_.y, {}, to_heads_.a}, false, heads_.get(), flat);
    if (d_kernel != nullptr) kernel_->Run(x, flat, nullptr, d_kernel);
    if (d_bias != nullptr) ops_->SumRows(rows_, columns_, flat, d_bias);
    if (dx != nullptr) input_->Run(flat, kernel, nullptr, dx);
  }

 private:
  Ops* ops_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
  Walk to_heads_;
  std::unique_ptr<Matmul> forward_, kernel_, input_;
  DeviceArray heads_;
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(Ops& ops, const AttentionPlan& plan, std::vector<AttentionMask> masks)
      : ops_(ops),
        p_(plan),
        masks_(std::move(masks)),
        examples_(p_.batch / p_.inner),
        own_(p_.inner * p_.queries * p_.out),
        scores_each_(p_.inner * p_.scores()),
        each_(own_ + (p_.return_scores ? scores_each_ : 0)) {
    softmax_.batch = p_.batch;
    softmax_.heads = p_.heads;
    softmax_.queries = p_.queries;
    softmax_.keys = p_.keys;
    softmax_.scale = 1.f / std::sqrt(static_cast<float>(p_.key_width));
    softmax_.causal = p_.causal;
    softmax_.masked = p_.masked;
    from_heads_ = {
        {p_.batch, p_.queries, p_.heads, p_.value_width},
        {p_.heads * p_.queries * p_.value_width, p_.value_width, p_.queries * p_.value_width, 1},
        {},
        {p_.queries * p_.heads * p_.value_width, p_.heads * p_.value_width, p_.value_width, 1}};
  }
  absl::Status Prepare();

  void Forward(const ForwardCall& call) override;
  void Backward(const BackwardCall& call) override;

 private:
  enum Part : size_t { kQuery, kKey, kValue, kOutput };
  // The index of a projection's kernel among the parameters.
  size_t KernelAt(Part part) const { return part * (p_.bias ? 2 : 1); }
  // The entry of a projection's bias in `all`.
  template <class Pointer>
  Pointer BiasOf(std::span<const Pointer> all, Part part) const {
    return p_.bias ? all[part * 2 + 1] : nullptr;
  }
  size_t InputOf(Part part) const { return part == kKey ? (p_.separate_key ? 2 : 1) : part / 2; }
  void CombineMasks(const ForwardCall& call);
  void ProjectBackward(const BackwardCall& call, Part part, float* dx);
  float* Dropped() { return dropped_ == nullptr ? scores_.get() : dropped_.get(); }

  Ops& ops_;
  const AttentionPlan p_;
  const std::vector<AttentionMask> masks_;
  // Number of examples; floats of an example's output and scores.
  const int64_t examples_, own_, scores_each_, each_;
  SoftmaxShape softmax_;
  Walk from_heads_;  // from (batch, heads, queries, width) to (batch, queries, ...)
  std::array<Projection, 3> projections_;
  std::unique_ptr<Matmul> score_, weigh_, output_;
  std::unique_ptr<Matmul> d_query_, d_key_, d_weights_, d_value_, d_output_kernel_, d_output_;
  DeviceArray mask_, term_;                  // (batch, queries, keys); one mask of ones and zeros
  DeviceArray scores_, dropped_, d_scores_;  // (batch, heads, queries, keys)
  bool drew_ = false;                        // random numbers were drawn in the last forward pass
  DeviceArray weighted_;                     // (batch * queries, heads * value_width)
  DeviceArray flat_;                         // scratch
  DeviceArray own_output_;                   // used if the scores are returned, too
  DeviceArray shared_;                       // gradient of a value that serves as key
};

absl::Status AttentionKernel::Prepare() {
  const int64_t b = p_.batch, h = p_.heads, t = p_.queries, s = p_.keys;
  const int64_t k = p_.key_width, v = p_.value_width, rows = b * t;
  RETURN_IF_ERROR(projections_[kQuery].Prepare(ops_, b, t, p_.query_in, h, k, p_.bias));
  RETURN_IF_ERROR(projections_[kKey].Prepare(ops_, b, s, p_.key_in, h, k, p_.bias));
  RETURN_IF_ERROR(projections_[kValue].Prepare(ops_, b, s, p_.value_in, h, v, p_.bias));
  const auto batched = [&](std::unique_ptr<Matmul>& made, MatmulShape shape) -> absl::Status {
    shape.batch = b * h;
    ASSIGN_OR_RETURN(made, ops_.MakeMatmul(shape));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(batched(score_, {t, k, s, false, true, false, false}));
  RETURN_IF_ERROR(batched(weigh_, {t, s, v, false, false, false, false}));
  RETURN_IF_ERROR(batched(d_query_, {t, s, k, false, false, false, false}));
  RETURN_IF_ERROR(batched(d_key_, {s, t, k, true, false, false, false}));
  RETURN_IF_ERROR(batched(d_weights_, {t, v, s, false, true, false, false}));
  RETURN_IF_ERROR(batched(d_value_, {s, t, v, true, false, false, false}));
  ASSIGN_OR_RETURN(output_, ops_.MakeMatmul({rows, h * v, p_.out, false, false, p_.bias, false}));
  ASSIGN_OR_RETURN(d_output_kernel_,
                   ops_.MakeMatmul({h * v, rows, p_.out, true, false, false, false}));
  ASSIGN_OR_RETURN(d_output_, ops_.MakeMatmul({rows, p_.out, h * v, false, true, false, false}));
  ASSIGN_OR_RETURN(scores_, ops_.Allocate(b * p_.scores()));
  ASSIGN_OR_RETURN(d_scores_, ops_.Allocate(b * p_.scores()));
  ASSIGN_OR_RETURN(weighted_, ops_.Allocate(rows * h * v));
  ASSIGN_OR_RETURN(flat_, ops_.Allocate(b * std::max(t, s) * h * std::max(k, v)));
  if (!p_.separate_key) {
    ASSIGN_OR_RETURN(shared_, ops_.Allocate(b * s * p_.value_in));
  }
  if (p_.dropout > 0) {
    ASSIGN_OR_RETURN(dropped_, ops_.Allocate(b * p_.scores()));
  }
  if (p_.return_scores) {
    ASSIGN_OR_RETURN(own_output_, ops_.Allocate(rows * p_.out));
  }
  if (!masks_.empty()) {
    ASSIGN_OR_RETURN(mask_, ops_.Allocate(rows * s));
    ASSIGN_OR_RETURN(term_, ops_.Allocate(rows * s));
  }
  return absl::OkStatus();
}

void AttentionKernel::CombineMasks(const ForwardCall& call) {
  const int64_t b = p_.batch, t = p_.queries, s = p_.keys;
  ops_.Fill(b * t * s, 1, mask_.get());
  for (const AttentionMask& mask : masks_) {
    const int64_t n = mask.queries * mask.keys;
    ops_.Activate({ActivationKind::kNotEqual, 0}, 1, b * n, call.inputs[mask.input], term_.get());
    const Walk walk{{b, t, s},
                    {t * s, s, 1},
                    {n, mask.queries == 1 ? 0 : mask.keys, mask.keys == 1 ? 0 : 1},
                    {t * s, s, 1}};
    ops_.Binary(BinaryKind::kMultiply, walk, mask_.get(), term_.get(), mask_.get());
  }
}

void AttentionKernel::Forward(const ForwardCall& call) {
  if (!masks_.empty()) CombineMasks(call);
  for (const Part part : {kQuery, kKey, kValue}) {
    projections_[part].Forward(call.inputs[InputOf(part)], call.Parameter(KernelAt(part)),
                               BiasOf(call.parameters, part), flat_.get());
  }
  score_->Run(projections_[kQuery].heads(), projections_[kKey].heads(), nullptr, scores_.get());
  ops_.MaskedSoftmax(softmax_, mask_.get(), scores_.get(), scores_.get());
  const int64_t n = p_.batch * p_.scores();
  drew_ = dropped_ != nullptr && call.training;
  if (drew_) {
    ops_.Dropout(call.key, p_.dropout, call.first_example * scores_each_, n, scores_.get(),
                 dropped_.get());
  } else if (dropped_ != nullptr) {
    ops_.Affine(n, 1, 0, scores_.get(), dropped_.get());
  }
  weigh_->Run(Dropped(), projections_[kValue].heads(), nullptr, flat_.get());
  ops_.Copy(from_heads_, false, flat_.get(), weighted_.get());
  float* output = p_.return_scores ? own_output_.get() : call.output.float32;
  output_->Run(weighted_.get(), call.Parameter(KernelAt(kOutput)), BiasOf(call.parameters, kOutput),
               output);
  if (!p_.return_scores) return;
  ops_.Copy({{examples_, own_}, {own_, 1}, {}, {each_, 1}}, false, output, call.output);
  ops_.Copy({{examples_, scores_each_}, {scores_each_, 1}, {}, {each_, 1}}, false, scores_.get(),
            call.output + own_);
}

void AttentionKernel::Backward(const BackwardCall& call) {
  const float* d_output = call.d_output;
  const int64_t n = p_.batch * p_.scores();
  if (p_.return_scores) {
    ops_.Copy({{examples_, own_}, {each_, 1}, {}, {own_, 1}}, false, d_output, own_output_.get());
    d_output = own_output_.get();
  }
  if (float* d = call.d_parameters[KernelAt(kOutput)]) {
    d_output_kernel_->Run(weighted_.get(), d_output, nullptr, d);
  }
  if (float* d = BiasOf(call.d_parameters, kOutput)) {
    ops_.SumRows(p_.batch * p_.queries, p_.out, d_output, d);
  }
  d_output_->Run(d_output, call.Parameter(KernelAt(kOutput)), nullptr, weighted_.get());
  // The gradient is moved into flat_, head by head.
  ops_.Copy({from_heads_.dims, from_heads_.y, {}, from_heads_.a}, false, weighted_.get(),
            flat_.get());
  d_weights_->Run(flat_.get(), projections_[kValue].heads(), nullptr, d_scores_.get());
  d_value_->Run(Dropped(), flat_.get(), nullptr, projections_[kValue].heads());
  if (drew_) {
    ops_.Dropout(call.key, p_.dropout, call.first_example * scores_each_, n, d_scores_.get(),
                 d_scores_.get());
  }
  if (p_.return_scores) {
    ops_.Copy({{examples_, scores_each_}, {each_, 1}, {}, {scores_each_, 1}}, true,
              call.d_output + own_, d_scores_.get());
  }
  ops_.MaskedSoftmaxBackward(softmax_, mask_.get(), scores_.get(), d_scores_.get(),
                             d_scores_.get());
  // The query's gradient goes through flat_, because the key's gradient still needs the query's
  // heads.
  d_query_->Run(d_scores_.get(), projections_[kKey].heads(), nullptr, flat_.get());
  d_key_->Run(d_scores_.get(), projections_[kQuery].heads(), nullptr, projections_[kKey].heads());
  ops_.Affine(p_.batch * p_.queries * p_.heads * p_.key_width, 1, 0, flat_.get(),
              projections_[kQuery].heads());
  ProjectBackward(call, kQuery, call.d_inputs[0]);
  ProjectBackward(call, kValue, call.d_inputs[1]);
  if (p_.separate_key) return ProjectBackward(call, kKey, call.d_inputs[2]);
  float* d = call.d_inputs[1];
  ProjectBackward(call, kKey, d == nullptr ? nullptr : shared_.get());
  if (d != nullptr) ops_.Add(p_.batch * p_.keys * p_.value_in, shared_.get(), d);
}

void AttentionKernel::ProjectBackward(const BackwardCall& call, Part part, float* dx) {
  projections_[part].Backward(call.inputs[InputOf(part)], call.Parameter(KernelAt(part)),
                              call.d_parameters[KernelAt(part)], BiasOf(call.d_parameters, part),
                              dx, flat_.get());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionKernel(Ops& ops, const AttentionPlan& plan,
                                                            std::vector<AttentionMask> masks) {
  const int64_t longest = std::max(plan.queries, plan.keys);
  const int64_t widest = std::max(plan.key_width, plan.value_width);
  RETURN_IF_ERROR(CheckElements({plan.batch, plan.heads, plan.queries, plan.keys}));
  RETURN_IF_ERROR(CheckElements({plan.batch, longest, plan.heads, widest}));
  auto kernel = std::make_unique<AttentionKernel>(ops, plan, std::move(masks));
  RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace paracord
