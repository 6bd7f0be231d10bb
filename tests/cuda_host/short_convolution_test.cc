// What becomes of a convolution in 16 bits that cuDNN has not all of.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_host/both_engines.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/log_text.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace paracord {
namespace {

// Worth 16 bits on a GPU that has no TF32.
ConvShape Small() {
  const WindowAxis axis = {.in = 20, .out = 20, .size = 3, .pad_before = 1, .pad_after = 1};
  return {.batch = 1,
          .in_channels = 64,
          .out_channels = 64,
          .height = axis,
          .width = axis,
          .bias = true};
}

struct Outcome {
  std::vector<Floats> results;
  std::set<std::string> called;
  std::string wrong;
};

Outcome Convolve(cuda::HostOptions options, Operands operands = Operands::kFloat16) {
  const ConvShape s = Small();
  Outcome outcome;
  options.bfloat16 = false;
  options.called = [&](const char* name) { outcome.called.insert(name); };
  options.at_end = [&](int64_t, const std::string& wrong) { outcome.wrong = wrong; };
  Random random(1);
  const auto draw = [&](int64_t n) { return random.Numbers(n); };
  const Floats x = draw(20 * 20 * 64), kernel = draw(9 * 64 * 64), bias = draw(64), dy = x;
  {
    Side side(cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value());
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

// Of the largest.
double Off(const Floats& got, const Floats& wanted) {
  double off = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(got[i]) - wanted[i]));
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  return off / largest;
}
bool Rounded(double off) { return off > 2e-5; }

TEST_CASE("without an engine for all directions in 16 bits a convolution takes all of them") {
  const Outcome wanted = Convolve({}, Operands::kFloat32), whole = Convolve({});
  for (const size_t r : {0u, 1u, 3u}) CHECK(Rounded(Off(whole.results[r], wanted.results[r])));
  CHECK(whole.results[2] == wanted.results[2]);  // the gradient of the bias
  for (const bool none : {false, true}) {
    const Log log;
    cuda::HostOptions options;
    options.directions.data = false;
    options.convolutions = !none;
    const Outcome outcome = Convolve(std::move(options));
    CHECK(log.lines() == 1);
    CHECK(outcome.called.count("cudnnConvolutionForward") == (none ? 0 : 1));
    for (size_t r = 0; r < 4; ++r) CHECK_FALSE(Rounded(Off(outcome.results[r], wanted.results[r])));
  }
}

TEST_CASE("a convolution in 16 bits rounds what both of its gradients read once") {
  cuda::HostOptions options;
  options.bfloat16 = false;
  Side side(cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value());
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

TEST_CASE("what cuDNN refuses to compute in 16 bits after all is computed without it") {
  const Outcome wanted = Convolve({}, Operands::kFloat32);
  const auto refused = [&](bool cuda::Directions::*way, size_t result) {
    const Log log;
    cuda::HostOptions options;
    options.computes.*way = false;
    const Outcome outcome = Convolve(std::move(options));
    CHECK(log.lines() == 1);
    for (const size_t r : {0u, 1u, 3u}) {
      CHECK(Rounded(Off(outcome.results[r], wanted.results[r])) == (r != result));
    }
  };
  refused(&cuda::Directions::forward, 0);
  refused(&cuda::Directions::filter, 1);
  refused(&cuda::Directions::data, 3);
}

TEST_CASE("each call of a convolution in 16 bits may fail, and is reported") {
  int64_t calls = 0;
  const auto run = [&](cuda::HostOptions options) {
    options.bfloat16 = false;
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
      ops.AllowOperands(Operands::kFloat16);
      auto conv = ops.MakeConv2D(Small());
      if (!conv.ok()) return conv.status();
      auto tensor = ops.Allocate(9 * 64 * 64);
      if (!tensor.ok()) return tensor.status();
      float* const all = tensor->get();
      ops.Fill(9 * 64 * 64, 1, all);
      (*conv)->Forward(all, all, all, all);
      (*conv)->Backward(
          {.dy = all, .dkernel = all, .dbias = all, .x = all, .dx = all, .kernel = all});
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
    if (status.ok()) continue;  // what is only given back
    CAPTURE(fails, status);
    CHECK(status.message().find("failed as asked") != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
