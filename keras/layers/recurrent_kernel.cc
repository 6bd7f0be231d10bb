#include "keras/layers/recurrent_kernel.h"

#include <array>

#include "common/mix.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(Ops& ops, const RecurrentPlan& plan)
      : ops_(ops),
        p_(plan),
        cell_{plan.kind, plan.batch, plan.units, plan.activation, plan.recurrent_activation} {}
  absl::Status Prepare(bool masked);

  void Forward(const ForwardCall& call) override;
  void Backward(const BackwardCall& call) override;

 private:
  CellStep Step(int64_t t) const;
  void TakeInput(const ForwardCall& call);
  void TakeMask(const float* mask);
  void SplitKernel(const float* kernel);
  void WriteOutput(float* output);
  void TakeOutputGradient(int64_t t, const float* d_output);
  void StepBackward(int64_t t, ConstTensor recurrent, bool first_states);
  void ParameterGradients(const BackwardCall& call);
  void RecurrentGradient(float* d_kernel);
  void InputGradient(const BackwardCall& call);
  // The state h of all steps after dropout, the product's operand.
  const DeviceArray& IntoProduct() const {
    return training_ && p_.recurrent_dropout > 0 ? dropped_ : h_;
  }
  static uint16_t* In16(const DeviceArray& rounded) {
    return reinterpret_cast<uint16_t*>(rounded.get());
  }
  // Returns numbers from `at` on with their bfloat16 copy; call Rounded first to copy `n` numbers.
  static ConstTensor Both(const DeviceArray& numbers, const DeviceArray& rounded, int64_t at = 0) {
    return {numbers.get() + at, rounded == nullptr ? nullptr : In16(rounded) + at};
  }
  ConstTensor Rounded(const DeviceArray& numbers, const DeviceArray& rounded, int64_t at,
                      int64_t n) {
    if (rounded != nullptr) ops_.Convert(n, numbers.get() + at, Tensor(In16(rounded) + at));
    return Both(numbers, rounded, at);
  }
  // Walks from the caller's (batch, steps, width) to our (steps, batch, width).
  Walk InWalk() const {
    const int64_t step = p_.go_backwards ? -p_.in : p_.in;
    return {
        {p_.steps, p_.batch, p_.in}, {step, p_.steps * p_.in, 1}, {}, {p_.batch * p_.in, p_.in, 1}};
  }
  int64_t InStart() const { return p_.go_backwards ? (p_.steps - 1) * p_.in : 0; }
  // A walk that applies a block to each of `times` blocks.
  static Walk Repeat(int64_t times, int64_t block) {
    return {{times, block}, {block, 1}, {0, 1}, {block, 1}};
  }
  Walk ByRow(int64_t y_step) const {  // multiplies each row of a state by a number
    return {{p_.batch, p_.units}, {p_.units, 1}, {1, 0}, {y_step, 1}};
  }

  Ops& ops_;
  const RecurrentPlan p_;
  const CellShape cell_;
  struct {
    std::unique_ptr<Matmul> input, input_back, kernel;
    // Products with the state; the second of each is for the candidate of a GRU with the reset
    // before the product.
    std::array<std::unique_ptr<Matmul>, 2> recurrent, recurrent_back, recurrent_kernel;
  } products_;
  DeviceArray x_, z_, dz_, dr_, kept_;  // all steps
  DeviceArray h_, c_;                   // all steps, and the first state in front
  DeviceArray dropped_, reset_;         // operands of the product: h after dropout; r h
  DeviceArray mask_, shown_;            // (steps, batch); shown: 1 where outputs are not zero
  DeviceArray drop_x_, drop_h_;         // factors (batch, width)
  DeviceArray r_, dh_, dc_, part_;      // one step
  DeviceArray split_;  // the recurrent kernel split into gates and candidate, and a gradient
  // bfloat16 copies over all steps, where products take bfloat16: of x, of h as an operand, of dz,
  // and of dr if the product with the state has a gradient of its own.
  struct {
    DeviceArray x, h, dz, dr;
  } rounded_;
  bool masked_ = false, shown_used_ = false, training_ = false;
};

absl::Status RecurrentKernel::Prepare(bool masked) {
  const int64_t rows = p_.steps * p_.batch, u = p_.units, wide = p_.gates * u;
  masked_ = masked;
  shown_used_ = masked && (p_.zero_output || p_.given_states > 0);
  const auto allocate = [&](DeviceArray& array, int64_t floats) -> absl::Status {
    ASSIGN_OR_RETURN(array, ops_.Allocate(floats));
    return absl::OkStatus();
  };
  const auto matmul = [&](std::unique_ptr<Matmul>& made, const MatmulShape& shape) -> absl::Status {
    ASSIGN_OR_RETURN(made, ops_.MakeMatmul(shape));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(matmul(products_.input, {rows, p_.in, wide, false, false, p_.bias, false}));
  RETURN_IF_ERROR(matmul(products_.input_back, {rows, wide, p_.in, false, true, false, false}));
  RETURN_IF_ERROR(matmul(products_.kernel, {p_.in, rows, wide, true, false, false, false}));
  const bool recurrent_bias = p_.bias && p_.kind == CellKind::kGru;
  const int64_t widths[] = {p_.reset_before() ? 2 * u : wide, u};
  for (size_t i = 0; i < (p_.reset_before() ? 2U : 1U); ++i) {
    const int64_t n = widths[i];
    RETURN_IF_ERROR(
        matmul(products_.recurrent[i], {p_.batch, u, n, false, false, recurrent_bias, false}));
    RETURN_IF_ERROR(
        matmul(products_.recurrent_back[i], {p_.batch, n, u, false, true, false, false}));
    RETURN_IF_ERROR(matmul(products_.recurrent_kernel[i], {u, rows, n, true, false, false, false}));
  }
  RETURN_IF_ERROR(allocate(x_, rows * p_.in));
  RETURN_IF_ERROR(allocate(z_, rows * wide));
  RETURN_IF_ERROR(allocate(dz_, rows * wide));
  if (p_.kept > 0) RETURN_IF_ERROR(allocate(kept_, rows * p_.kept * u));
  RETURN_IF_ERROR(allocate(h_, (rows + p_.batch) * u));
  RETURN_IF_ERROR(allocate(r_, p_.batch * wide));
  RETURN_IF_ERROR(allocate(dh_, p_.block()));
  RETURN_IF_ERROR(allocate(part_, p_.block()));
  if (p_.states == 2) {
    RETURN_IF_ERROR(allocate(c_, (rows + p_.batch) * u));
    RETURN_IF_ERROR(allocate(dc_, p_.block()));
  }
  if (p_.own_product()) RETURN_IF_ERROR(allocate(dr_, rows * wide));
  if (p_.reset_before()) {
    RETURN_IF_ERROR(allocate(reset_, rows * u));
    RETURN_IF_ERROR(allocate(split_, 5 * u * u));
  }
  const auto allocate16 = [&](DeviceArray& array, const Matmul& product, int64_t n) {
    return product.takes_bfloat16() ? allocate(array, (n + 1) / 2) : absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate16(rounded_.x, *products_.kernel, rows * p_.in));
  RETURN_IF_ERROR(allocate16(rounded_.h, *products_.recurrent_kernel[0], rows * u));
  RETURN_IF_ERROR(allocate16(rounded_.dz, *products_.kernel, rows * wide));
  if (p_.own_product() && !p_.reset_before()) {
    RETURN_IF_ERROR(allocate16(rounded_.dr, *products_.recurrent_kernel[0], rows * wide));
  }
  if (masked) RETURN_IF_ERROR(allocate(mask_, rows));
  if (shown_used_) RETURN_IF_ERROR(allocate(shown_, rows));
  if (p_.dropout > 0) RETURN_IF_ERROR(allocate(drop_x_, p_.batch * p_.in));
  if (p_.recurrent_dropout > 0) {
    RETURN_IF_ERROR(allocate(drop_h_, p_.block()));
    RETURN_IF_ERROR(allocate(dropped_, rows * u));
  }
  return absl::OkStatus();
}

CellStep RecurrentKernel::Step(int64_t t) const {
  CellStep step;
  const int64_t at = t * p_.block();
  if (masked_) step.mask = mask_.get() + t * p_.batch;
  step.h0 = h_.get() + at;
  step.h = h_.get() + at + p_.block();
  step.z = z_.get() + at * p_.gates;
  if (p_.kept > 0) step.kept = kept_.get() + at * p_.kept;
  if (p_.states == 2) {
    step.c0 = c_.get() + at;
    step.c = c_.get() + at + p_.block();
  }
  return step;
}

void RecurrentKernel::TakeInput(const ForwardCall& call) {
  ops_.Copy(InWalk(), false, call.inputs[0] + InStart(), x_.get());
  const auto draw = [&](uint64_t salt, float rate, int64_t width, float* factors) {
    const int64_t n = p_.batch * width;
    ops_.Fill(n, 1, factors);
    ops_.Dropout(Mix64(call.key ^ salt), rate, call.first_example * width, n, factors, factors);
  };
  if (training_ && p_.dropout > 0) {  // a mask for all steps
    draw(1, p_.dropout, p_.in, drop_x_.get());
    ops_.Binary(BinaryKind::kMultiply, Repeat(p_.steps, p_.batch * p_.in), x_.get(), drop_x_.get(),
                x_.get());
  }
  if (training_ && p_.recurrent_dropout > 0) {
    draw(2, p_.recurrent_dropout, p_.units, drop_h_.get());
  }
  float* first[] = {h_.get(), c_.get()};
  for (size_t i = 0; i < p_.states; ++i) {
    if (i < p_.given_states) {
      ops_.Affine(p_.block(), 1, 0, call.inputs[1 + i], first[i]);
    } else {
      ops_.Fill(p_.block(), 0, first[i]);
    }
  }
}

void RecurrentKernel::TakeMask(const float* mask) {
  const int64_t b = p_.batch, steps = p_.steps;
  const int64_t start = p_.go_backwards ? steps - 1 : 0, step = p_.go_backwards ? -1 : 1;
  ops_.Copy({{steps, b}, {step, steps}, {}, {b, 1}}, false, mask + start, mask_.get());
  if (!shown_used_) return;
  ops_.Affine(steps * b, 1, 0, mask_.get(), shown_.get());
  // A masked step repeats the previous output; before the first visible step there is none.
  for (int64_t t = 1; t < steps && !p_.zero_output; ++t) {
    float* now = shown_.get() + t * b;
    ops_.Binary(BinaryKind::kMaximum, {{b}, {1}, {1}, {1}}, now, now - b, now);
  }
}

// Splits the recurrent kernel into two matrices: for the gates z and r, and for the candidate.
void RecurrentKernel::SplitKernel(const float* kernel) {
  const int64_t u = p_.units;
  ops_.Copy({{u, 2 * u}, {3 * u, 1}, {}, {2 * u, 1}}, false, kernel, split_.get());
  ops_.Copy({{u, u}, {3 * u, 1}, {}, {u, 1}}, false, kernel + 2 * u, split_.get() + 2 * u * u);
}

void RecurrentKernel::Forward(const ForwardCall& call) {
  training_ = call.training;
  TakeInput(call);
  if (masked_) TakeMask(call.inputs[1 + p_.given_states]);
  ConstTensor recurrent = call.Parameter(1);
  const float* bias = p_.bias ? call.parameters[2] : nullptr;
  const float* recurrent_bias =
      bias != nullptr && p_.kind == CellKind::kGru ? bias + 3 * p_.units : nullptr;
  if (p_.reset_before()) {
    SplitKernel(recurrent);
    recurrent = split_.get();
  }
  products_.input->Run(Rounded(x_, rounded_.x, 0, p_.steps * p_.batch * p_.in), call.Parameter(0),
                       bias, z_.get());
  for (int64_t t = 0; t < p_.steps; ++t) {
    CellStep step = Step(t);
    const int64_t at = t * p_.block();
    if (training_ && p_.recurrent_dropout > 0) {
      ops_.Binary(BinaryKind::kMultiply, {{p_.block()}, {1}, {1}, {1}}, step.h0, drop_h_.get(),
                  dropped_.get() + at);
    }
    const ConstTensor h = Rounded(IntoProduct(), rounded_.h, at, p_.block());
    products_.recurrent[0]->Run(h, recurrent, recurrent_bias, r_.get());
    if (!p_.reset_before()) {
      ops_.CellForward(cell_, step, r_.get());
      continue;
    }
    CellStep gates = step;
    gates.h0 = h;
    gates.h = reset_.get() + t * p_.block();
    ops_.CellForward(cell_, gates, r_.get());
    products_.recurrent[1]->Run(gates.h, split_.get() + 2 * p_.units * p_.units, nullptr, r_.get());
    CellShape candidate = cell_;
    candidate.kind = CellKind::kGruCandidate;
    ops_.CellForward(candidate, step, r_.get());
  }
  WriteOutput(call.output);
}

void RecurrentKernel::WriteOutput(float* output) {
  const int64_t b = p_.batch, u = p_.units, steps = p_.steps, n = p_.block();
  const float* h = h_.get() + n;
  const int64_t last = steps - 1;
  if (p_.sequences) {
    const Walk walk{{steps, b, u}, {n, u, 1}, {b, 1, 0}, {u, p_.each, 1}};
    if (shown_used_) {
      ops_.Binary(BinaryKind::kMultiply, walk, h, shown_.get(), output);
    } else {
      ops_.Copy({walk.dims, walk.a, {}, walk.y}, false, h, output);
    }
  } else if (shown_used_) {
    ops_.Binary(BinaryKind::kMultiply, ByRow(p_.each), h + last * n, shown_.get() + last * b,
                output);
  } else {
    ops_.Copy({{b, u}, {u, 1}, {}, {p_.each, 1}}, false, h + last * n, output);
  }
  int64_t at = p_.sequences ? steps * u : u;
  if (at == p_.each) return;
  for (const DeviceArray* state : {&h_, &c_}) {
    if (*state == nullptr) continue;
    ops_.Copy({{b, u}, {u, 1}, {}, {p_.each, 1}}, false, state->get() + steps * n, output + at);
    at += u;
  }
}

// Adds the gradient of the output at step t to dh.
void RecurrentKernel::TakeOutputGradient(int64_t t, const float* d_output) {
  if (!p_.sequences && t + 1 < p_.steps) return;
  const int64_t b = p_.batch, u = p_.units;
  const float* d = d_output + (p_.sequences ? t * u : 0);
  if (!shown_used_) {
    return ops_.Copy({{b, u}, {p_.each, 1}, {}, {u, 1}}, true, d, dh_.get());
  }
  ops_.Binary(BinaryKind::kMultiply, {{b, u}, {p_.each, 1}, {1, 0}, {u, 1}}, d,
              shown_.get() + t * b, part_.get());
  ops_.Add(p_.block(), part_.get(), dh_.get());
}

// Carries dh and dc from the state after a step to the state before.
void RecurrentKernel::StepBackward(int64_t t, ConstTensor recurrent, bool first_states) {
  const int64_t u = p_.units, n = p_.block(), rows = p_.steps * p_.batch;
  const CellStep step = Step(t);
  float* dz = dz_.get() + t * n * p_.gates;
  // The gradient of r, two tensors if the reset precedes the product.
  float* dr = !p_.own_product() ? dz : dr_.get() + t * n * (p_.reset_before() ? 2 : p_.gates);
  CellShape shape = cell_;
  if (p_.reset_before()) {
    float* d_reset = r_.get();  // gradient of r h0
    ops_.Fill(n, 0, d_reset);
    shape.kind = CellKind::kGruCandidate;
    float* d_candidate = dr_.get() + 2 * rows * u + t * n;
    ops_.CellBackward(shape, step, dh_.get(), nullptr, dz, d_candidate);
    products_.recurrent_back[1]->Run(d_candidate, split_.get() + 2 * u * u, nullptr, part_.get());
    shape.kind = CellKind::kGruGates;
    CellStep gates = step;
    if (training_ && p_.recurrent_dropout > 0) gates.h0 = dropped_.get() + t * n;
    ops_.CellBackward(shape, gates, d_reset, part_.get(), dz, dr);
  } else {
    ops_.CellBackward(shape, step, dh_.get(), dc_.get(), dz, dr);
  }
  ConstTensor by_r = dr;
  if (!p_.reset_before()) {
    const int64_t wide = n * p_.gates;
    by_r = p_.own_product() ? Rounded(dr_, rounded_.dr, t * wide, wide)
                            : Rounded(dz_, rounded_.dz, t * wide, wide);
  }
  if (t == 0 && !first_states) return;
  products_.recurrent_back[0]->Run(by_r, recurrent, nullptr, part_.get());
  if (p_.reset_before()) ops_.Add(n, r_.get(), part_.get());
  if (training_ && p_.recurrent_dropout > 0) {
    ops_.Binary(BinaryKind::kMultiply, {{n}, {1}, {1}, {1}}, part_.get(), drop_h_.get(),
                part_.get());
  }
  ops_.Add(n, part_.get(), dh_.get());
}

void RecurrentKernel::Backward(const BackwardCall& call) {
  const int64_t b = p_.batch, u = p_.units, n = p_.block();
  int64_t at = p_.sequences ? p_.steps * u : u;
  const bool state_gradients = at < p_.each;
  for (const DeviceArray* d : {&dh_, &dc_}) {
    if (*d == nullptr) continue;
    if (state_gradients) {
      ops_.Copy({{b, u}, {p_.each, 1}, {}, {u, 1}}, false, call.d_output + at, d->get());
      at += u;
    } else {
      ops_.Fill(n, 0, d->get());
    }
  }
  bool first_states = false;
  for (size_t i = 0; i < p_.given_states; ++i) {
    first_states = first_states || call.d_inputs[1 + i] != nullptr;
  }
  const ConstTensor recurrent = p_.reset_before() ? split_.get() : call.Parameter(1);
  for (int64_t t = p_.steps; t-- > 0;) {
    TakeOutputGradient(t, call.d_output);
    StepBackward(t, recurrent, first_states);
  }
  const DeviceArray* const d_states[] = {&dh_, &dc_};
  for (size_t i = 0; i < p_.given_states; ++i) {
    if (float* d = call.d_inputs[1 + i]) ops_.Affine(n, 1, 0, d_states[i]->get(), d);
  }
  if (p_.own_product()) Rounded(dz_, rounded_.dz, 0, p_.steps * n * p_.gates);
  ParameterGradients(call);
  if (call.d_inputs[0] != nullptr) InputGradient(call);
}

void RecurrentKernel::ParameterGradients(const BackwardCall& call) {
  const int64_t rows = p_.steps * p_.batch, wide = p_.gates * p_.units;
  if (float* d = call.d_parameters[0]) {
    products_.kernel->Run(Both(x_, rounded_.x), Both(dz_, rounded_.dz), nullptr, d);
  }
  if (float* d = call.d_parameters[1]) RecurrentGradient(d);
  float* d_bias = p_.bias ? call.d_parameters[2] : nullptr;
  if (d_bias == nullptr) return;
  ops_.SumRows(rows, wide, dz_.get(), d_bias);
  if (p_.kind == CellKind::kGru) ops_.SumRows(rows, wide, dr_.get(), d_bias + wide);
}

void RecurrentKernel::RecurrentGradient(float* d_kernel) {
  const int64_t u = p_.units, rows = p_.steps * p_.batch;
  const float* dr = dr_.get();
  const ConstTensor h = Both(IntoProduct(), rounded_.h);
  if (!p_.reset_before()) {
    const ConstTensor by_r = p_.own_product() ? Both(dr_, rounded_.dr) : Both(dz_, rounded_.dz);
    return products_.recurrent_kernel[0]->Run(h, by_r, nullptr, d_kernel);
  }
  float* part = split_.get() + 3 * u * u;
  products_.recurrent_kernel[0]->Run(h, dr, nullptr, part);
  ops_.Copy({{u, 2 * u}, {2 * u, 1}, {}, {3 * u, 1}}, false, part, d_kernel);
  products_.recurrent_kernel[1]->Run(reset_.get(), dr + 2 * rows * u, nullptr, part);
  ops_.Copy({{u, u}, {u, 1}, {}, {3 * u, 1}}, false, part, d_kernel + 2 * u);
}

void RecurrentKernel::InputGradient(const BackwardCall& call) {
  float* dx = x_.get();  // x_ is no longer needed
  products_.input_back->Run(Both(dz_, rounded_.dz), call.Parameter(0), nullptr, dx);
  if (training_ && p_.dropout > 0) {
    ops_.Binary(BinaryKind::kMultiply, Repeat(p_.steps, p_.batch * p_.in), dx, drop_x_.get(), dx);
  }
  const Walk way = InWalk();
  ops_.Copy({way.dims, way.y, {}, way.a}, false, dx, call.d_inputs[0] + InStart());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentKernel(Ops& ops, const RecurrentPlan& plan,
                                                            bool masked) {
  RETURN_IF_ERROR(CheckElements({plan.steps + 1, plan.batch, 5 * plan.units}));
  RETURN_IF_ERROR(CheckElements({plan.steps, plan.batch, plan.in}));
  auto kernel = std::make_unique<RecurrentKernel>(ops, plan);
  RETURN_IF_ERROR(kernel->Prepare(masked));
  return kernel;
}

}  // namespace paracord
