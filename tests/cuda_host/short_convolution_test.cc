// Convolutions in 16 bits that cuDNN does not support completely, and convolutions of bfloat16
// tensors.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/both_engines.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/log_text.h"

namespace paracord {
namespace {

// A shape for which 16 bits pay on a GPU without TF32.
ConvShape Small() {
  const WindowAxis axis = {.in = 20, .out = 20, .size = 3, .pad_before = 1, .pad_after = 1};
  return {.batch = 1,
          .in_channels = 64,
          .out_channels = 64,
          .height = axis,
          .width = axis,
          .bias = true};
}

struct Convolved {
  std::vector<Floats> results;
  std::set<std::string> called;
  std::string wrong;
};

Convolved Convolve(cuda::HostOptions options, Operands operands = Operands::kFloat16) {
  const ConvShape s = Small();
  Convolved outcome;
  options.bfloat16 = false;
  options.called = [&](const char* name) { outcome.called.insert(name); };
  options.at_end = [&](int64_t, const std::string& wrong) { outcome.wrong = wrong; };
  RandomInputs random(1);
  const auto draw = [&](int64_t n) { return random.Numbers(n); };
  const Floats x = draw(20 * 20 * 64), kernel = draw(9 * 64 * 64), bias = draw(64), dy = x;
  {
    ComparedEngine side(cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value());
    side.ops().AllowOperands(operands);
    const auto conv = side.ops().MakeConv2D(s).value();
    const float *px = side.Put(x), *pk = side.Put(kernel), *pdy = side.Put(dy);
    float *y = side.New(x.size()), *dk = side.New(kernel.size()), *db = side.New(64);
    float* dx = side.New(x.size());
    for (int round = 0; round < 2; ++round) {
      conv->Forward(px, pk, side.Put(bias), y);
      conv->Backward({.dy = pdy, .dkernel = dk, .dbias = db, .x = px, .dx = dx, .kernel = pk});
    }
    side.Take(y, static_cast<int64_t>(x.size()));
    side.Take(dk, static_cast<int64_t>(kernel.size()));
    side.Take(db, 64);
    side.Take(dx, static_cast<int64_t>(x.size()));
    outcome.results = side.results();
  }
  CHECK(outcome.wrong.empty());
  return outcome;
}

// The largest difference, as a share of the largest number.
double LargestOff(const Floats& got, const Floats& wanted) {
  double off = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(got[i]) - wanted[i]));
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  return off / largest;
}
bool Rounded(double off) { return off > 2e-5; }

TEST_CASE("without an engine for all directions in 16 bits a convolution takes all of them") {
  const Convolved wanted = Convolve({}, Operands::kFloat32), whole = Convolve({});
  for (const size_t r : {0u, 1u, 3u})
    CHECK(Rounded(LargestOff(whole.results[r], wanted.results[r])));
  CHECK(whole.results[2] == wanted.results[2]);  // the gradient of the bias
  for (const bool none : {false, true}) {
    const LogText log;
    cuda::HostOptions options;
    options.directions.data = false;
    options.convolutions = !none;
    const Convolved outcome = Convolve(std::move(options));
    CHECK(log.lines() == 1);
    CHECK(outcome.called.count("cudnnConvolutionForward") == (none ? 0 : 1));
    for (size_t r = 0; r < 4; ++r)
      CHECK_FALSE(Rounded(LargestOff(outcome.results[r], wanted.results[r])));
  }
}

TEST_CASE("a convolution in 16 bits rounds what both of its gradients read once") {
  cuda::HostOptions options;
  options.bfloat16 = false;
  ComparedEngine side(cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value());
  side.ops().AllowOperands(Operands::kFloat16);
  const auto conv = side.ops().MakeConv2D(Small()).value();
  const Floats all(20 * 20 * 64, 1.f), kernel(9 * 64 * 64, 1.f);
  const float *x = side.Put(all), *w = side.Put(kernel);
  float *dx = side.New(all.size()), *dw = side.New(kernel.size()), *db = side.New(64);
  (void)side.ops().TakeSpans(true);
  conv->Backward({.dy = x, .dkernel = dw, .dbias = db, .x = x, .dx = dx, .kernel = w});
  REQUIRE(side.ops().Finish().ok());
  const std::vector<DeviceSpan> spans = side.ops().TakeSpans(false);
  CHECK(std::count_if(spans.begin(), spans.end(), [](const DeviceSpan& span) {
          return std::string_view(span.name) == "to float16";
        }) == 3);  // x, dy and the kernel
}

// A convolution of bfloat16 tensors, forward and backward: the names of the launches in order, and
// y, dx, dkernel and dbias.
struct ShortOutcome {
  std::vector<std::string> launched;
  std::vector<Floats> results;
  std::string wrong;
};
ShortOutcome ConvolveShort(cuda::HostOptions options, bool short_x, bool short_y,
                           Operands operands = Operands::kBfloat16, int64_t before = 0) {
  ConvShape s = Small();
  s.x_bfloat16 = short_x;
  s.y_bfloat16 = short_y;
  RandomInputs random(1);
  const Floats x = random.Numbers(20 * 20 * 64), kernel = random.Numbers(9 * 64 * 64, 0, 0.125f);
  const Floats bias = random.Numbers(64), dy = random.Numbers(20 * 20 * 64);
  ShortOutcome outcome;
  options.at_end = [&](int64_t, const std::string& wrong) { outcome.wrong = wrong; };
  {
    ComparedEngine side(cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value());
    side.ops().AllowOperands(operands);
    const auto conv = side.ops().MakeConv2D(s).value();
    const Tensor px = side.PutTensor(x, short_x, before), dx = side.NewTensor(x.size(), short_x);
    const Tensor pdy = side.PutTensor(dy, short_y), y = side.NewTensor(dy.size(), short_y);
    const float *pk = side.Put(kernel), *pb = side.Put(bias);
    float *dk = side.New(kernel.size()), *db = side.New(64);
    REQUIRE(side.ops().Finish().ok());
    (void)side.ops().TakeSpans(true);
    conv->Forward(px, pk, pb, y);
    conv->Backward({.dy = pdy, .dkernel = dk, .dbias = db, .x = px, .dx = dx, .kernel = pk});
    REQUIRE(side.ops().Finish().ok());
    for (const DeviceSpan& span : side.ops().TakeSpans(false)) {
      outcome.launched.emplace_back(span.name);
    }
    side.TakeTensor(y, 20 * 20 * 64);
    side.TakeTensor(dx, 20 * 20 * 64);
    side.Take(dk, 9 * 64 * 64);
    side.Take(db, 64);
    outcome.results = side.results();
  }
  CHECK(outcome.wrong.empty());
  return outcome;
}
using Names = std::vector<std::string>;
const char* const kForward = "convolution";
const char* const kOfKernel = "convolution, gradient of the kernel";
const char* const kOfInput = "convolution, gradient of the input";
const char* const kOfBias = "gradient of the bias";
int64_t Count(const Names& names, const char* name) {
  return std::count(names.begin(), names.end(), name);
}

TEST_CASE("a convolution of bfloat16 tensors reads and writes them where they lie") {
  const auto launched = [](bool short_x, bool short_y) {
    return ConvolveShort({}, short_x, short_y).launched;
  };
  // The moves to and from cuDNN's layout round the kernel and convert its gradient.
  const char *const kMoves = "transpose", *const kBias = "bias to bfloat16";
  CHECK(launched(true, true) ==
        Names{kMoves, kBias, kForward, kOfKernel, kMoves, kOfBias, kOfBias, kMoves, kOfInput});
  CHECK(launched(false, true) == Names{"to bfloat16", kMoves, kBias, kForward, "to bfloat16",
                                       kOfKernel, kMoves, kOfBias, kOfBias, kMoves, kOfInput,
                                       "from 16 bits"});
  CHECK(launched(true, false) == Names{kMoves, kForward, "from 16 bits", "to bfloat16", kOfKernel,
                                       kMoves, kOfBias, kOfBias, kMoves, kOfInput});
  // cuDNN does not add the bias here.
  cuda::HostOptions options;
  options.directions.finishes = false;
  const ShortOutcome apart = ConvolveShort(std::move(options), true, true);
  CHECK(apart.launched ==
        Names{kMoves, kForward, "bias", kOfKernel, kMoves, kOfBias, kOfBias, kMoves, kOfInput});
  const ShortOutcome together = ConvolveShort({}, true, true);
  for (size_t r = 0; r < 4; ++r)
    CHECK(LargestOff(apart.results[r], together.results[r]) < 1.0 / 128);
}

TEST_CASE("a convolution of bfloat16 tensors that cuDNN has not all of is one of float32") {
  const ShortOutcome wanted = ConvolveShort({}, true, true);
  const auto wide = [&](const ShortOutcome& outcome) {
    CHECK(Count(outcome.launched, "convert") >= 4);
    CHECK(Count(outcome.launched, "to bfloat16") == 0);
    for (size_t r = 0; r < 4; ++r)
      CHECK(LargestOff(outcome.results[r], wanted.results[r]) < 1.0 / 128);
  };
  for (const bool none : {false, true}) {
    const LogText log;
    cuda::HostOptions options;
    options.directions.data = false;
    options.convolutions = !none;
    wide(ConvolveShort(std::move(options), true, true));
    CHECK(log.lines() == 1);
  }
  cuda::HostOptions old;
  old.bfloat16 = false;
  wide(ConvolveShort(std::move(old), true, true));
  for (const Operands other : {Operands::kFloat32, Operands::kTf32, Operands::kFloat16}) {
    wide(ConvolveShort({}, true, true, other));
  }
}

TEST_CASE("what cuDNN refuses of bfloat16 tensors, or begins anywhere, is computed without it") {
  const ShortOutcome wanted = ConvolveShort({}, true, true);
  const auto check = [&](const ShortOutcome& outcome) {
    for (const char* name : {"convert", "to bfloat16", "from 16 bits"}) {
      CHECK(Count(outcome.launched, name) == 0);
    }
    for (size_t r = 0; r < 4; ++r)
      CHECK(LargestOff(outcome.results[r], wanted.results[r]) < 1.0 / 128);
  };
  for (bool cuda::Directions::*way :
       {&cuda::Directions::forward, &cuda::Directions::filter, &cuda::Directions::data}) {
    const LogText log;
    cuda::HostOptions options;
    options.computes.*way = false;
    check(ConvolveShort(std::move(options), true, true));
    CHECK(log.lines() == 1);
  }
  const LogText log;
  check(ConvolveShort({}, true, true, Operands::kBfloat16, /*before=*/1));
  CHECK(log.lines() == 1);
}

TEST_CASE("what cuDNN refuses to compute in 16 bits after all is computed without it") {
  const Convolved wanted = Convolve({}, Operands::kFloat32);
  const auto refused = [&](bool cuda::Directions::*way, size_t result) {
    const LogText log;
    cuda::HostOptions options;
    options.computes.*way = false;
    const Convolved outcome = Convolve(std::move(options));
    CHECK(log.lines() == 1);
    for (const size_t r : {0u, 1u, 3u}) {
      CHECK(Rounded(LargestOff(outcome.results[r], wanted.results[r])) == (r != result));
    }
  };
  refused(&cuda::Directions::forward, 0);
  refused(&cuda::Directions::filter, 1);
  refused(&cuda::Directions::data, 3);
}

TEST_CASE("each call of a convolution in 16 bits may fail, and is reported") {
  const bool brain = GENERATE(false, true);  // bfloat16 tensors
  int64_t calls = 0;
  const auto run = [&](cuda::HostOptions options) {
    options.bfloat16 = brain;
    std::string wrong;
    options.at_end = [&](int64_t all, const std::string& what) {
      calls = all;
      wrong = what;
    };
    absl::Status status = [&] {
      auto made = cuda::MakeOps(cuda::MakeHostRuntime(std::move(options)));
      if (!made.ok()) return made.status();
      Ops& ops = **made;
      ops.Enter();
      ops.AllowOperands(brain ? Operands::kBfloat16 : Operands::kFloat16);
      ConvShape shape = Small();
      shape.x_bfloat16 = shape.y_bfloat16 = brain;
      auto conv = ops.MakeConv2D(shape);
      if (!conv.ok()) return conv.status();
      auto tensor = ops.Allocate(9 * 64 * 64);
      if (!tensor.ok()) return tensor.status();
      float* const all = tensor->get();
      ops.Fill(9 * 64 * 64, 1, all);
      const Tensor image = brain ? Tensor(reinterpret_cast<uint16_t*>(all)) : Tensor(all);
      (*conv)->Forward(image, all, all, image);
      (*conv)->Backward(
          {.dy = image, .dkernel = all, .dbias = all, .x = image, .dx = image, .kernel = all});
      return ops.Finish();
    }();
    CHECK(wrong.empty());
    return status;
  };
  REQUIRE(run({}).ok());
  const int64_t all = calls;
  for (int64_t fails = 0; fails < all; ++fails) {
    cuda::HostOptions options;
    options.fail_call = fails;
    const absl::Status status = run(std::move(options));
    if (status.ok()) continue;  // the call only released something
    CAPTURE(fails, status);
    CHECK(status.message().find("failed as asked") != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
