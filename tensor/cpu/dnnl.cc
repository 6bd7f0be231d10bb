// Matmul and convolution by oneDNN 2.6 or 3. Primitives and their dnnl::memory objects are made
// once; a run only points them at other data. Row-major matmul is faster than inner_product in any
// format, and convolutions want the kernel in oneDNN's own layout.
#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/vector_widths.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/dnnl_defects.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/ranges.h"

namespace paracord::cpu {
namespace {

using dnnl::memory;
using Args = std::unordered_map<int, memory>;
using Type = memory::data_type;
constexpr auto kF32 = Type::f32;

// Describes a primitive by its arguments (oneDNN 3) or by a descriptor (2), which must live while
// `choose` iterates over the implementations. `hint` is the forward description needed by a
// gradient.
struct NoHint {};
template <class Primitive, class Choose, class Hint, class... Arguments>
auto Describe(const dnnl::engine& engine, const Choose& choose, const dnnl::primitive_attr& attr,
              const Hint& hint, const Arguments&... arguments) {
  using Described = typename Primitive::primitive_desc;
  constexpr bool kForward = std::is_same_v<Hint, NoHint>;
#if DNNL_VERSION_MAJOR >= 3
  if constexpr (kForward) {
    return choose(Described(engine, arguments..., attr));
  } else {
    return choose(Described(engine, arguments..., hint, attr));
  }
#else
  const typename Primitive::desc desc(arguments...);
  if constexpr (kForward) {
    return choose(Described(desc, attr, engine));
  } else {
    return choose(Described(desc, attr, engine, hint));
  }
#endif
}

void AppendRelu(dnnl::post_ops& ops) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#else
  ops.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#endif
}

memory WithoutData(const memory::desc& desc, const dnnl::engine& engine) {
  return memory(desc, engine, nullptr);
}

void Point(memory& at, const void* data) { at.set_data_handle(const_cast<void*>(data)); }
void Point(memory& at, const Tensor& y) {
  With(y, [&](const auto* data) { Point(at, static_cast<const void*>(data)); });
}

// Rejects a bfloat16 primitive not computed by AMX: other implementations may be slower than
// float32, down to loops over single elements.
template <class Desc>
Desc Fast(Desc desc, Type type) {
  const bool amx = std::string_view(desc.impl_info_str()).find("amx") != std::string_view::npos;
  if (type != kF32 && !amx) throw dnnl::error(dnnl_unimplemented, "not by AMX");
  return desc;
}

// Prepares the operands of primitives: float32 in place, or rounded into the scratch memory.
class Reader {
 public:
  Reader(Device& device, int threads, Type type)
      : device_(device), threads_(threads), rounds_(type != kF32) {}
  bool rounds() const { return rounds_; }
  const void* Read(const ConstTensor& x, size_t scratch, int64_t n) const {
    if (!rounds_) return x.float32;
    if (x.bfloat16 != nullptr) return x.bfloat16;
    auto* const rounded = reinterpret_cast<uint16_t*>(device_.scratch[scratch].get());
    InRanges(threads_, n, kRange,
             [&](int64_t at, int64_t count) { Convert(count, x + at, Tensor(rounded + at)); });
    return rounded;
  }

 private:
  Device& device_;
  const int threads_;
  const bool rounds_;
};

int64_t RoundedFloats(int64_t n) { return (n + 1) / 2; }

// The attributes of all primitives. Scratch memory is the device's, because oneDNN's own belongs to
// the thread that made the primitive. A ReLU turns a NaN into 0, and so does every other way to
// clip, or lets -inf through.
dnnl::primitive_attr Attributes(bool relu = false) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops ops;
    AppendRelu(ops);
    attr.set_post_ops(ops);
  }
  return attr;
}

// A primitive with the arguments of its runs.
class Runnable {
 public:
  Runnable() = default;
  Runnable(Device& device, const dnnl::primitive_desc_base& described, Args args)
      : primitive_(described.get()), args_(std::move(args)) {
    const memory::desc needed = described.scratchpad_desc();
    if (needed.get_size() == 0) return;
    memory& scratchpad = device.scratchpad;
    if (!scratchpad || scratchpad.get_desc().get_size() < needed.get_size()) {
      scratchpad = memory(needed, device.engine);
    }
    scratchpad_ = WithoutData(needed, device.engine);
    args_.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
  }
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  void Run(Device& device) {
    if (scratchpad_) Point(scratchpad_, device.scratchpad.get_data_handle());
    primitive_.execute(device.stream, args_);
  }

 private:
  dnnl::primitive primitive_;
  Args args_;
  memory scratchpad_;
};

// oneDNN multiplies matrices that are narrow in m or n without copying their operands (gemm's
// nocopy_checker_avx2). If the loop over k steps from row to row, and a row is a multiple of 2 KiB,
// all of them fall into a few sets of the cache. Such operands are copied first, with a cache line
// between the rows, which makes the product 1.2 to 2 times as fast, the copy included. On AVX-512
// oneDNN has other code; that was not measured.
constexpr int64_t kGap = 16;     // floats
constexpr int64_t kSteps = 512;  // floats
// rows of the product; with fewer, copying b costs more than it saves
constexpr int64_t kRowsMin = 32;

bool IsNarrow(const MatmulShape& s) {
  static const bool avx2 = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx2;
  return avx2 && s.batch == 1 &&
         1.0 / static_cast<double>(s.m) + 1.0 / static_cast<double>(s.n) >= 0.0038;
}

class DnnlMatmul : public Matmul {
 public:
  DnnlMatmul(Device& device, int threads, const MatmulShape& s, Type type)
      : device_(device),
        threads_(threads),
        shape_(s),
        reader_(device, threads, type),
        apart_(reader_.rounds() ? std::array<int64_t, 3>{} : ScratchFloats(s, false)) {
    const auto operand = [&](bool apart, bool transpose, int64_t rows, int64_t columns, Type of) {
      memory::dims dims{rows, columns};
      const int64_t step = (transpose ? rows : columns) + (apart ? kGap : 0);
      memory::dims steps = transpose ? memory::dims{1, step} : memory::dims{step, 1};
      if (s.batch > 1) {
        dims.insert(dims.begin(), s.batch);
        steps.insert(steps.begin(), rows * columns);
      }
      return memory::desc(dims, of, steps);
    };
    const memory::desc a = operand(apart_[0] > 0, s.transpose_a, s.m, s.k, type);
    const memory::desc b = operand(apart_[1] > 0, s.transpose_b, s.k, s.n, type);
    const memory::desc c = operand(false, false, s.m, s.n, kF32);
    const memory::desc bias = s.batch > 1
                                  ? memory::desc({1, 1, s.n}, kF32, memory::dims{s.n, s.n, 1})
                                  : memory::desc({1, s.n}, kF32, memory::dims{s.n, 1});
    const auto& engine = device.engine;
    const auto attr = Attributes(s.relu);
    if (type != kF32 && IsWrongByAmx(s)) throw dnnl::error(dnnl_unimplemented, "wrong by AMX");
    const auto fast = [&](const auto& desc) { return Fast(desc, type); };
    const auto described = s.bias
                               ? Describe<dnnl::matmul>(engine, fast, attr, NoHint(), a, b, bias, c)
                               : Describe<dnnl::matmul>(engine, fast, attr, NoHint(), a, b, c);
    a_ = WithoutData(a, engine);
    b_ = WithoutData(b, engine);
    c_ = WithoutData(c, engine);
    Args args = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
    if (s.bias) {
      bias_ = WithoutData(bias, engine);
      args.emplace(DNNL_ARG_BIAS, bias_);
    }
    matmul_ = Runnable(device, described, std::move(args));
  }

  bool takes_bfloat16() const override { return reader_.rounds(); }
  void Run(ConstTensor a, ConstTensor b, const float* bias, float* c) override {
    device_.Guard("matmul", [&] {
      Point(a_, Read(0, a, shape_.m));
      Point(b_, Read(1, b, shape_.n));
      Point(c_, c);
      if (bias_) Point(bias_, bias);
      matmul_.Run(device_);
    });
  }

 private:
  // Returns the operand of k rows of `width` in place, or a copy with spaced rows, or rounded.
  const void* Read(size_t operand, const ConstTensor& all, int64_t width) {
    if (apart_[operand] == 0) {
      return reader_.Read(all, operand, shape_.batch * shape_.k * width);
    }
    const float* const x = all.float32;
    float* const copy = device_.scratch[operand].get();
    InRanges(threads_, shape_.k, kRange / width + 1, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) {
        std::copy_n(x + r * width, width, copy + r * (width + kGap));
      }
    });
    return copy;
  }

  Device& device_;
  const int threads_;
  const MatmulShape shape_;
  const Reader reader_;
  const std::array<int64_t, 3> apart_;
  Runnable matmul_;
  memory a_, b_, bias_, c_;
};

// Converts a tensor between our layout and a primitive's. Uses the tensor's own memory if the
// layouts are equal, otherwise a buffer and a reorder.
class Adapter {
 public:
  Adapter() = default;
  Adapter(const memory::desc& ours, const memory::desc& wanted, bool inward, Device& device)
      : ours_(WithoutData(ours, device.engine)) {
    if (ours == wanted) {
      wanted_ = ours_;
      return;
    }
    wanted_ = memory(wanted, device.engine);
    memory& from = inward ? ours_ : wanted_;
    memory& to = inward ? wanted_ : ours_;
    const dnnl::reorder::primitive_desc described(from, to, Attributes());
    reorder_ = Runnable(device, described, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  const memory& wanted() const { return wanted_; }
  void Point(const float* data) { cpu::Point(ours_, data); }
  void Convert(Device& device) {
    if (reorder_) reorder_.Run(device);
  }

 private:
  memory ours_, wanted_;
  Runnable reorder_;
};

memory::desc Image(const ConvShape& s, Type type) {
  return memory::desc({s.batch, s.in_channels, s.height.in, s.width.in}, type,
                      memory::format_tag::nhwc);
}
memory::desc Result(const ConvShape& s, Type type) {
  return memory::desc({s.batch, s.out_channels, s.height.out, s.width.out}, type,
                      memory::format_tag::nhwc);
}

struct ConvDescs {
  ConvDescs(const ConvShape& s, Type type)
      : x(Image(s, type)),
        y(Result(s, s.y_bfloat16 ? type : kF32)),
        dx(Image(s, s.x_bfloat16 ? type : kF32)),
        dy(Result(s, type)),
        bias({s.out_channels}, kF32, memory::format_tag::a),
        strides{s.height.stride, s.width.stride},
        dilations{s.height.dilation - 1, s.width.dilation - 1},
        pad_before{s.height.pad_before, s.width.pad_before},
        pad_after{s.height.pad_after, s.width.pad_after} {
    const int64_t in = s.in_channels / s.groups, all_out = s.out_channels;
    const int64_t h = s.height.size, w = s.width.size;
    memory::dims dims{all_out / s.groups, in, h, w};
    memory::dims steps{1, all_out, w * in * all_out, in * all_out};
    if (s.groups > 1) {
      dims.insert(dims.begin(), s.groups);
      steps.insert(steps.begin(), all_out / s.groups);
    }
    kernel_ours = memory::desc(dims, kF32, steps);
    kernel_any = memory::desc(dims, type, memory::format_tag::any);
    d_kernel_any = memory::desc(dims, kF32, memory::format_tag::any);
  }
  memory::desc x, y, dx, dy, bias, kernel_ours, kernel_any, d_kernel_any;
  memory::dims strides, dilations, pad_before, pad_after;
};

// Takes the first implementation not known to be wrong.
template <class Desc>
Desc Right(Desc desc, const ConvShape& s) {
  while (IsWrong(desc.impl_info_str(), s)) {
    if (!desc.next_impl()) {  // has never happened; the error names the layer
      throw dnnl::error(dnnl_unimplemented, "every implementation is wrong");
    }
  }
  return desc;
}

// oneDNN's plans for a convolution and its gradients.
struct ConvPlans {
  using Forward = dnnl::convolution_forward;
  using Input = dnnl::convolution_backward_data;
  using Kernel = dnnl::convolution_backward_weights;
  ConvPlans(const Device& device, const ConvShape& s, Type type) : tensors(s, type) {
    if (type != kF32 && IsWrongByAmx(s)) throw dnnl::error(dnnl_unimplemented, "wrong by AMX");
    const ConvDescs& d = tensors;
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto training = dnnl::prop_kind::forward_training;
    const auto attr = Attributes();
    const auto choose = [&](const auto& desc) { return Fast(Right(desc, s), type); };
    const auto describe_forward = [&](const auto&... all) {
      return Describe<Forward>(device.engine, choose, Attributes(s.relu), NoHint(), training,
                               direct, all..., d.strides, d.dilations, d.pad_before, d.pad_after);
    };
    forward = s.bias ? describe_forward(d.x, d.kernel_any, d.bias, d.y)
                     : describe_forward(d.x, d.kernel_any, d.y);
    input = Describe<Input>(device.engine, choose, attr, forward, direct, d.dx, d.kernel_any, d.dy,
                            d.strides, d.dilations, d.pad_before, d.pad_after);
    const auto describe_kernel = [&](const auto&... all) {
      return Describe<Kernel>(device.engine, choose, attr, forward, direct, all..., d.strides,
                              d.dilations, d.pad_before, d.pad_after);
    };
    kernel = s.bias ? describe_kernel(d.x, d.d_kernel_any, d.bias, d.dy)
                    : describe_kernel(d.x, d.d_kernel_any, d.dy);
  }
  const ConvDescs tensors;
  Forward::primitive_desc forward;
  Input::primitive_desc input;
  Kernel::primitive_desc kernel;
};

class DnnlConv2D : public Conv2D {
 public:
  DnnlConv2D(Device& device, int threads, const ConvShape& s, Type type)
      : device_(device),
        reader_(device, threads, type),
        inputs_(s.inputs()),
        outputs_(s.outputs()) {
    const ConvPlans plans(device, s, type);
    const ConvDescs& d = plans.tensors;
    const auto& engine = device.engine;
    x_ = WithoutData(d.x, engine);
    y_ = WithoutData(d.y, engine);
    dx_ = WithoutData(d.dx, engine);
    dy_ = WithoutData(d.dy, engine);
    forward_kernel_ = Adapter(d.kernel_ours, plans.forward.weights_desc(), true, device);
    input_kernel_ = Adapter(d.kernel_ours, plans.input.weights_desc(), true, device);
    d_kernel_ = Adapter(d.kernel_ours, plans.kernel.diff_weights_desc(), false, device);
    Args forward_args = {
        {DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, forward_kernel_.wanted()}, {DNNL_ARG_DST, y_}};
    Args input_args = {{DNNL_ARG_DIFF_DST, dy_},
                       {DNNL_ARG_WEIGHTS, input_kernel_.wanted()},
                       {DNNL_ARG_DIFF_SRC, dx_}};
    Args kernel_args = {
        {DNNL_ARG_SRC, x_}, {DNNL_ARG_DIFF_DST, dy_}, {DNNL_ARG_DIFF_WEIGHTS, d_kernel_.wanted()}};
    if (s.bias) {
      bias_ = WithoutData(d.bias, engine);
      forward_args.emplace(DNNL_ARG_BIAS, bias_);
      kernel_args.emplace(DNNL_ARG_DIFF_BIAS, bias_);
    }
    forward_ = Runnable(device, plans.forward, std::move(forward_args));
    input_ = Runnable(device, plans.input, std::move(input_args));
    kernel_ = Runnable(device, plans.kernel, std::move(kernel_args));
  }

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    device_.Guard("convolution", [&] {
      Point(x_, reader_.Read(x, 0, inputs_));
      Point(y_, y);
      if (bias_) Point(bias_, bias);
      forward_kernel_.Point(kernel);
      forward_kernel_.Convert(device_);
      forward_.Run(device_);
    });
  }
  void Backward(const ConvGradients& g) override {
    device_.Guard("gradients of a convolution", [&] {
      Point(dy_, reader_.Read(g.dy, 1, outputs_));
      if (g.dkernel != nullptr) {
        Point(x_, reader_.Read(g.x, 0, inputs_));
        if (bias_) Point(bias_, g.dbias);
        d_kernel_.Point(g.dkernel);
        kernel_.Run(device_);
        d_kernel_.Convert(device_);
      }
      if (g.dx != nullptr) {
        Point(dx_, g.dx);
        input_kernel_.Point(g.kernel);
        input_kernel_.Convert(device_);
        input_.Run(device_);
      }
    });
  }

 private:
  Device& device_;
  const Reader reader_;
  const int64_t inputs_, outputs_;
  Runnable forward_, input_, kernel_;
  memory x_, y_, dx_, dy_, bias_;
  Adapter forward_kernel_, input_kernel_, d_kernel_;
};

template <class Interface, class Implementation, class Shape>
absl::StatusOr<std::unique_ptr<Interface>> Make(const char* what, Device& device, int threads,
                                                const Shape& shape, bool bfloat16) {
  try {
    return std::make_unique<Implementation>(device, threads, shape, bfloat16 ? Type::bf16 : kF32);
  } catch (const dnnl::error& e) {
    const std::string message = absl::StrCat(what, ": oneDNN: ", e.what());
    if (bfloat16 && e.status == dnnl_unimplemented) return absl::UnimplementedError(message);
    return absl::InternalError(message);
  }
}

}  // namespace

bool HasBfloat16() {
  using Bits = std::underlying_type_t<dnnl::cpu_isa>;
  constexpr auto kAmx = static_cast<Bits>(dnnl::cpu_isa::avx512_core_amx);
  return (static_cast<Bits>(dnnl::get_effective_cpu_isa()) & kAmx) == kAmx;
}

std::array<int64_t, 3> ScratchFloats(const MatmulShape& s, bool bfloat16) {
  if (bfloat16) return {RoundedFloats(s.batch * s.m * s.k), RoundedFloats(s.batch * s.k * s.n), 0};
  const bool a = IsNarrow(s) && s.transpose_a && s.m % kSteps == 0;
  const bool b = IsNarrow(s) && !s.transpose_b && s.n % kSteps == 0 && s.m >= kRowsMin;
  return {a ? s.k * (s.m + kGap) : 0, b ? s.k * (s.n + kGap) : 0, 0};
}
std::array<int64_t, 3> ScratchFloats(const ConvShape& s) {
  return {RoundedFloats(s.inputs()), RoundedFloats(s.outputs()), 0};
}

bool ComputesBfloat16(const Device& device, const ConvShape& shape) {
  try {
    ConvPlans(device, shape, Type::bf16);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

absl::StatusOr<std::unique_ptr<Matmul>> MakeMatmul(Device& device, int threads,
                                                   const MatmulShape& shape, bool bfloat16) {
  return Make<Matmul, DnnlMatmul>("matmul", device, threads, shape, bfloat16);
}
absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Device& device, int threads,
                                                   const ConvShape& shape, bool bfloat16) {
  return Make<Conv2D, DnnlConv2D>("convolution", device, threads, shape, bfloat16);
}

}  // namespace paracord::cpu

namespace paracord {

std::string CpuNumerics() {
  const dnnl_version_t& version = *dnnl_version();
  const auto isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  [[maybe_unused]] constexpr int kVector128 = 128, kVector256 = 256, kVector512 = 512;
  const int width = PICK_WIDTH(kVector);
  return absl::StrCat("vectors ", width, " dnnl ", version.major, ".", version.minor, ".",
                      version.patch, " isa ", isa);
}

}  // namespace paracord
