#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "common/json_text.h"
#include "keras/layers/layers.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Runs a layer with the config `values` on x (examples, shape...).
std::vector<float> Output(const std::string& class_name, const json& values, const Shape& shape,
                          const std::vector<float>& x, bool training, int64_t first = 0) {
  LayerConfig config(class_name, "layer", values, /*keras2=*/false);
  auto layer = MakeLayer(config, /*operation=*/false);
  REQUIRE(layer.ok());
  const std::vector<Shape> inputs{shape};
  REQUIRE((*layer)->OutputShape(inputs).ok());
  const std::unique_ptr<Ops> device = TestOps();
  Ops& ops = *device;
  const auto n = static_cast<int64_t>(x.size());
  auto kernel = (*layer)->MakeKernel(ops, n / Elements(shape), inputs);
  REQUIRE(kernel.ok());
  auto in = ops.Allocate(n), out = ops.Allocate(n);
  REQUIRE((in.ok() && out.ok()));
  ops.Upload(n, x.data(), in->get());
  const ConstTensor all[] = {in->get()};
  ForwardCall call;
  call.inputs = all;
  call.output = out->get();
  call.training = training;
  call.key = 7;
  call.first_example = first;
  (*kernel)->Forward(call);
  std::vector<float> y(x.size());
  ops.Download(n, out->get(), y.data());
  REQUIRE(ops.Finish().ok());
  return y;
}

std::vector<float> Normal(size_t n) {
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  std::vector<float> x(n);
  for (float& v : x) v = draw(random);
  return x;
}

TEST_CASE("an AlphaDropout keeps mean and variance, and drops to one number") {
  const std::vector<float> x = Normal(200'000);
  CHECK(Output("AlphaDropout", {{"rate", 0.3}}, {1000}, x, false) == x);
  const std::vector<float> y = Output("AlphaDropout", {{"rate", 0.3}}, {1000}, x, true);
  double mean = 0, squares = 0;
  std::map<float, int> seen;
  for (const float v : y) {
    mean += v;
    squares += v * v;
    ++seen[v];
  }
  const auto n = static_cast<double>(y.size());
  CHECK(mean / n == Approx(0).margin(0.02));
  CHECK(squares / n == Approx(1).margin(0.03));
  // a * (dropped value) + b in Keras' formula.
  const double rate = 0.3, dropped = -1.7580993408473766;
  const double a = 1 / std::sqrt((1 - rate) * (1 + rate * dropped * dropped));
  const double lowest = a * dropped - a * dropped * rate;
  int dropped_count = 0;
  for (const auto& [value, count] : seen) {
    if (count > 100) CHECK(value == Approx(lowest).epsilon(1e-5));
    if (count > 100) dropped_count += count;
  }
  CHECK(dropped_count / n == Approx(rate).margin(0.01));
  for (size_t i = 0; i < 100; ++i) {
    if (std::abs(y[i] - lowest) < 1e-4) continue;
    CHECK(y[i] == Approx(a * x[i] - a * dropped * rate).margin(1e-5));
  }
}

TEST_CASE("elements along an axis with 1 in noise_shape are dropped together") {
  const std::vector<float> x(2000 * 6, 1.f);  // (examples, 3, 2)
  const std::vector<float> y =
      Output("Dropout", {{"rate", 0.5}, {"noise_shape", {nullptr, 1, 2}}}, {3, 2}, x, true);
  int kept = 0;
  for (size_t i = 0; i < y.size(); i += 6) {
    for (size_t j = 0; j < 6; ++j) CHECK(y[i + j] == y[i + j % 2]);
    kept += y[i] != 0;
  }
  CHECK(kept > 900);
  CHECK(kept < 1100);
  const std::vector<float> same =
      Output("Dropout", {{"rate", 0.5}, {"noise_shape", {1, 3, 2}}}, {3, 2}, x, true, 5);
  for (size_t i = 0; i < same.size(); ++i) REQUIRE(same[i] == same[i % 6]);
}

TEST_CASE("a noise_shape of another rank than the input is refused") {
  const json values{{"rate", 0.5}, {"noise_shape", {nullptr, 1}}};
  LayerConfig config("Dropout", "d", values, false);
  auto layer = MakeLayer(config, /*operation=*/false);
  REQUIRE(layer.ok());
  const auto shape = (*layer)->OutputShape(std::vector<Shape>{{3, 2}});
  CHECK(std::string(shape.status().message()).find("key \"noise_shape\": 2 axes") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord
