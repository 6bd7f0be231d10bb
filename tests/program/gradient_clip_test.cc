#include "program/gradient_clip.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace paracord {
namespace {

struct Gradients {
  std::vector<float> a = {3, 4}, b = {0, 12}, none;
  void Clip(const GradientClip& clip) {
    const std::vector<std::span<float>> spans = {a, b, none};
    clip.Apply(spans);
  }
};

TEST_CASE("clipnorm scales each variable's gradient to its own norm") {
  Gradients gradients;
  gradients.Clip(ReadGradientClip({"sgd", {{"clipnorm", 6.0}}}));
  CHECK(gradients.a == std::vector<float>{3, 4});
  CHECK(gradients.b == std::vector<float>{0, 6});
}

TEST_CASE("global_clipnorm scales all gradients by one factor") {
  Gradients gradients;
  gradients.Clip(ReadGradientClip({"sgd", {{"global_clipnorm", 6.5}, {"clipnorm", nullptr}}}));
  CHECK(gradients.a == std::vector<float>{1.5, 2});
  CHECK(gradients.b == std::vector<float>{0, 6});
}

TEST_CASE("what a moving average is given is neither clipped nor counted in a norm") {
  std::vector<VariableSpec> variables(3);
  variables[1].set_moving_average(0.9);
  Gradients gradients;
  gradients.Clip(ReadGradientClip({"sgd", {{"global_clipnorm", 2.5}}}, variables));
  CHECK(gradients.a == std::vector<float>{1.5, 2});
  CHECK(gradients.b == std::vector<float>{0, 12});
  gradients.Clip(ReadGradientClip({"sgd", {{"clipnorm", 1.25}}}, variables));
  CHECK(gradients.a == std::vector<float>{0.75, 1});
  CHECK(gradients.b == std::vector<float>{0, 12});
}

TEST_CASE("a norm is that of all elements, whatever their number") {
  for (const size_t size : {7, 9, 65536, 65537, 200003}) {
    std::vector<float> gradient(size);
    double sum = 0;
    for (size_t i = 0; i < size; ++i) {
      gradient[i] = static_cast<float>(i % 97) - 48;
      sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
    const std::vector<float> before = gradient;
    const std::vector<std::span<float>> spans = {gradient};
    ReadGradientClip({"sgd", {{"clipnorm", std::sqrt(sum) / 4}}}).Apply(spans);
    for (size_t i = 0; i < size; ++i) {
      if (gradient[i] != before[i] / 4) FAIL("element " << i << " of " << size);
    }
  }
}

TEST_CASE("without clipping gradients keep their bits") {
  Gradients gradients;
  gradients.Clip(ReadGradientClip({"sgd"}));
  CHECK(gradients.b == std::vector<float>{0, 12});
}

}  // namespace
}  // namespace paracord
