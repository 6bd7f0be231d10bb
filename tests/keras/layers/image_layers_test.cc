// Image layers: random draws in training, and no change at inference.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "common/json_text.h"
#include "keras/layers/layers.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Floats = std::vector<float>;

struct Made {
  std::unique_ptr<Layer> layer;
  Shape out;
};

Made Make(const std::string& class_name, const json& values, const Shape& shape, bool keras2) {
  LayerConfig config(class_name, "layer", values, keras2);
  auto layer = MakeLayer(config, /*operation=*/false);
  INFO(layer.status());
  REQUIRE(layer.ok());
  const std::vector<Shape> inputs{shape};
  auto out = (*layer)->OutputShape(inputs);
  REQUIRE(out.ok());
  return {*std::move(layer), *std::move(out)};
}

struct Mode {
  bool training = true;
  uint64_t key = 7;
  int64_t first = 0;
  bool keras2 = false;
};

// Runs a layer with the config `values` on x (examples, shape...).
Floats Output(const std::string& class_name, const json& values, const Shape& shape,
              const Floats& x, Mode mode = {}) {
  const Made made = Make(class_name, values, shape, mode.keras2);
  const std::vector<Shape> inputs{shape};
  const std::unique_ptr<Ops> device = TestOps();
  Ops& ops = *device;
  const auto n = static_cast<int64_t>(x.size());
  const int64_t batch = n / Elements(shape), to = batch * Elements(made.out);
  auto kernel = made.layer->MakeKernel(ops, batch, inputs);
  REQUIRE(kernel.ok());
  auto in = ops.Allocate(n), out = ops.Allocate(to);
  REQUIRE((in.ok() && out.ok()));
  ops.Upload(n, x.data(), in->get());
  const ConstTensor all[] = {in->get()};
  ForwardCall call;
  call.inputs = all;
  call.output = out->get();
  call.training = mode.training;
  call.key = mode.key;
  call.first_example = mode.first;
  (*kernel)->Forward(call);
  Floats y(static_cast<size_t>(to));
  ops.Download(to, out->get(), y.data());
  REQUIRE(ops.Finish().ok());
  return y;
}

// Returns equal images in which a pixel is its index.
Floats Indices(int64_t examples, const Shape& shape) {
  Floats x;
  for (int64_t e = 0; e < examples; ++e) {
    for (int64_t i = 0; i < Elements(shape); ++i) x.push_back(static_cast<float>(i));
  }
  return x;
}

Floats Part(const Floats& all, int64_t from, int64_t each, int64_t count = 1) {
  return {all.begin() + from * each, all.begin() + (from + count) * each};
}

const std::vector<std::pair<const char*, json>> kRandom = {
    {"RandomFlip", json::object()},
    {"RandomTranslation", {{"height_factor", 0.3}, {"width_factor", {-0.1, 0.4}}}},
    {"RandomRotation", {{"factor", 0.2}, {"fill_mode", "wrap"}}},
    {"RandomZoom", {{"height_factor", {-0.3, 0.1}}, {"width_factor", nullptr}}},
    {"RandomZoom", {{"height_factor", 0.2}, {"width_factor", 0.3}, {"interpolation", "nearest"}}},
    {"RandomBrightness", {{"factor", 0.2}}},
    {"RandomContrast", {{"factor", 0.4}}},
    {"RandomCrop", {{"height", 3}, {"width", 2}}},
};

TEST_CASE("random numbers of an image are a function of the key and its place in the batch") {
  const Shape shape{6, 5, 2};
  const Floats x = Indices(12, shape);
  for (const auto& [name, config] : kRandom) {
    INFO(name << " " << TextOf(config));
    const Floats whole = Output(name, config, shape, x);
    CHECK(Output(name, config, shape, x) == whole);
    CHECK(Output(name, config, shape, x, {.key = 8}) != whole);
    const int64_t each = static_cast<int64_t>(whole.size()) / 12;
    const Floats slice = Output(name, config, shape, Part(x, 5, Elements(shape), 4), {.first = 5});
    CHECK(slice == Part(whole, 5, each, 4));
    std::set<Floats> different;
    for (int64_t e = 0; e < 12; ++e) different.insert(Part(whole, e, each));
    const bool together = std::string(name) == "RandomCrop";  // one position for the whole batch
    const bool few = together || config.contains("interpolation");  // images may be nearly equal
    CHECK(different.size() >= (few ? 1 : std::string(name) == "RandomFlip" ? 2 : 11));
    if (together) CHECK(different.size() == 1);
  }
}

TEST_CASE("at inference images of a random layer stay as they are") {
  const Shape shape{6, 5, 2};
  const Floats x = Indices(3, shape);
  for (const auto& [name, config] : kRandom) {
    INFO(name);
    if (std::string(name) == "RandomCrop") continue;
    CHECK(Output(name, config, shape, x, {.training = false}) == x);
  }
}

TEST_CASE("a RandomFlip flips half of the images, both ways at once in Keras 3 alone") {
  const Shape shape{2, 3, 1};
  const Floats as_is = Indices(1, shape), across{2, 1, 0, 5, 4, 3}, down{3, 4, 5, 0, 1, 2};
  const Floats both{5, 4, 3, 2, 1, 0};
  const auto count = [&](const json& config, bool keras2) {
    const Floats y = Output("RandomFlip", config, shape, Indices(1000, shape), {.keras2 = keras2});
    std::vector<int> seen(4);
    for (int64_t e = 0; e < 1000; ++e) {
      const Floats image = Part(y, e, 6);
      ++seen[image == as_is ? 0 : image == across ? 1 : image == down ? 2 : 3];
      if (image != as_is && image != across && image != down) CHECK(image == both);
    }
    return seen;
  };
  const auto about = [](int n, int wanted) { return std::abs(n - wanted) < 80; };
  const std::vector<int> horizontal = count({{"mode", "horizontal"}}, false);
  CHECK((about(horizontal[0], 500) && about(horizontal[1], 500)));
  const std::vector<int> vertical = count({{"mode", "vertical"}}, false);
  CHECK((about(vertical[0], 500) && about(vertical[2], 500)));
  const std::vector<int> alike = count(json::object(), false);
  CHECK((about(alike[0], 500) && about(alike[3], 500)));
  const std::vector<int> apart = count({{"mode", "horizontal_and_vertical"}}, true);
  for (const int n : apart) CHECK(about(n, 250));
}

TEST_CASE("brightness and contrast are uniform within their bounds, and clipped") {
  const Shape shape{1, 2, 1};
  Floats x;
  for (int e = 0; e < 2000; ++e) x.insert(x.end(), {100, 140});
  struct Bounds {
    double low, high, mean;
  };
  const auto drawn = [&](const char* name, const json& config, bool keras2, Bounds bounds) {
    INFO(name << TextOf(config));
    const Floats y = Output(name, config, shape, x, {.keras2 = keras2});
    const bool contrast = std::string(name) == "RandomContrast";
    double mean = 0, least = 1e9, most = -1e9;
    for (size_t e = 0; e < 2000; ++e) {
      const double a = y[2 * e], b = y[2 * e + 1];
      const double number = contrast ? (b - a) / 40 : a - 100;
      if (contrast) CHECK(a + b == Approx(240));
      if (!contrast) CHECK(b - a == Approx(40));
      mean += number / 2000;
      least = std::min(least, number);
      most = std::max(most, number);
    }
    const double wide = bounds.high - bounds.low;
    CHECK(mean == Approx(bounds.mean).margin(0.03 * wide));
    CHECK((least >= bounds.low - 1e-4 && least < bounds.low + 0.02 * wide));
    CHECK((most <= bounds.high + 1e-4 && most > bounds.high - 0.02 * wide));
  };
  drawn("RandomBrightness", {{"factor", 0.2}}, false, {-51, 51, 0});
  drawn("RandomBrightness", {{"factor", {0.3, -0.1}}}, false, {-25.5, 76.5, 25.5});
  drawn("RandomContrast", {{"factor", {0, 0.5}}}, false, {1, 1.5, 1.25});
  drawn("RandomContrast", {{"factor", 0.5}}, false, {1, 1.5, 1.25});
  drawn("RandomContrast", {{"factor", 0.5}}, true, {0.5, 1.5, 1});
  drawn("RandomContrast", {{"factor", {0.25, 0.5}}}, false, {0.75, 1.5, 1.125});
  const json narrow = {{"factor", {1, 1}}, {"value_range", {90, 120}}};
  const Floats y = Output("RandomBrightness", narrow, shape, x);
  CHECK((y[0] == 120 && y[1] == 120));
}

TEST_CASE("a RandomTranslation draws rows and columns on their own, within their bounds") {
  const Shape shape{1, 100, 1};
  const json config = {{"height_factor", 0}, {"width_factor", {-0.1, 0.2}}};
  const Floats y = Output("RandomTranslation", config, shape, Indices(500, shape));
  double least = 1e9, most = -1e9, mean = 0;
  for (int64_t e = 0; e < 500; ++e) {
    const double right = 50 - static_cast<double>(y[static_cast<size_t>(100 * e + 50)]);
    least = std::min(least, right);
    most = std::max(most, right);
    mean += right / 500;
  }
  CHECK((least >= -10.001 && least < -9.5));
  CHECK((most <= 20.001 && most > 19.5));
  CHECK(mean == Approx(5).margin(1.5));
}

TEST_CASE("a RandomCrop is a part of the image, each as likely as the others") {
  const Shape shape{4, 3, 1};
  std::set<float> corners;
  for (uint64_t key = 0; key < 60; ++key) {
    const Floats y =
        Output("RandomCrop", {{"height", 2}, {"width", 2}}, shape, Indices(2, shape), {.key = key});
    corners.insert(y[0]);
    CHECK(Part(y, 0, 4) == Floats{y[0], y[0] + 1, y[0] + 3, y[0] + 4});
  }
  CHECK(corners == std::set<float>{0, 1, 3, 4, 6, 7});
}

TEST_CASE("at inference a RandomCrop is the middle of its proportions, resized") {
  const Shape shape{4, 6, 1};
  const Floats x = Indices(1, shape);
  const json size = {{"height", 2}, {"width", 2}};
  CHECK(Output("RandomCrop", size, shape, x, {.training = false}) == Floats{4.5, 6.5, 16.5, 18.5});
  CHECK(Output("RandomCrop", {{"height", 4}, {"width", 6}}, shape, x, {.training = false}) == x);
}

TEST_CASE("a RandomCrop of an image that is too small is Keras' and Keras 2's") {
  const Shape shape{4, 6, 1};
  const Floats x = Indices(1, shape);
  const auto check = [&](int64_t height, int64_t width, const Floats& keras3,
                         const Floats& keras2) {
    const json size = {{"height", height}, {"width", width}};
    const auto begin = [&](Mode mode) {
      Floats y = Output("RandomCrop", size, shape, x, mode);
      y.resize(keras3.size());
      for (float& v : y) v = std::round(v * 1000) / 1000;
      return y;
    };
    CHECK(begin({}) == keras3);
    CHECK(begin({.keras2 = true}) == keras2);
    CHECK(begin({.training = false}) == keras2);
  };
  check(8, 2, {2, 3, 3.5f, 4.5f, 6.5f, 7.5f}, {2, 2, 3.5f, 3.5f, 6.5f, 6.5f});
  check(2, 8, {6, 6.625f, 7.375f, 8.125f, 8.875f, 9.625f, 10.375f, 11, 12},
        {6, 6.625f, 7.375f, 8.125f, 8.875f, 9.625f, 10.375f, 11, 6});
  check(5, 5, {1, 2, 3, 4, 5, 5.2f}, {1, 1.7f, 2.5f, 3.3f, 4, 5.2f});
}

TEST_CASE("mistakes in layers over images name the key and what is supported") {
  const auto refused = [](const char* name, const json& values) {
    LayerConfig config(name, "l", values, false);
    return std::string(MakeLayer(config, /*operation=*/false).status().message());
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  json size = {{"height", 2}, {"width", 2}};
  const auto with = [&](const char* key, const json& value) {
    json values = size;
    values[key] = value;
    return refused("Resizing", values);
  };
  has(with("interpolation", "bicubic"), "layer \"l\" (Resizing): key \"interpolation\": ");
  has(with("interpolation", "bicubic"), "supported: bilinear, nearest");
  has(with("antialias", true), "key \"antialias\": true is not supported; supported: false");
  has(refused("CenterCrop", {{"height", 0}, {"width", 1}}), "key \"height\": must be");
  has(refused("CenterCrop", {{"height", 2}}), "key \"width\": is missing");
  has(refused("RandomRotation", json::object()), "key \"factor\": is missing");
  has(refused("RandomRotation", {{"factor", {1, "x"}}}), "key \"factor\": must be two numbers");
  has(refused("RandomRotation", {{"factor", 0.1}, {"fill_mode", "mirror"}}), "key \"fill_mode\"");
  has(refused("RandomZoom", {{"height_factor", 2}}), "key \"height_factor\": must lie between");
  has(refused("RandomZoom", {{"height_factor", 0.1}, {"width_factor", "a"}}),
      "key \"width_factor\": must be a number");
  has(refused("RandomFlip", {{"mode", "diagonal"}}), "key \"mode\": \"diagonal\"");
  has(refused("RandomContrast", {{"factor", 0.1}, {"value_range", {1, 0}}}),
      "key \"value_range\": must have the lower one first");
  const Made crop = Make("CenterCrop", size, {4, 4, 1}, false);
  has(std::string(crop.layer->OutputShape(std::vector<Shape>{{4, 4}}).status().message()),
      "needs images (height, width, channels), not (4, 4)");
}

TEST_CASE("a pad that mirrors is no longer than what it mirrors") {
  const auto padded = [](const char* mode, int64_t before, int64_t after) {
    const json values = {{"mode", mode}, {"pad_width", {{0, 0}, {before, after}, {0, 0}}}};
    LayerConfig config("Pad", "p", values, /*keras2=*/false);
    const auto layer = MakeLayer(config, /*operation=*/true);
    REQUIRE(layer.ok());
    const std::vector<Shape> inputs{{4, 3}};
    return (*layer)->OutputShape(inputs);
  };
  CHECK(*padded("reflect", 3, 0) == Shape{7, 3});
  CHECK(*padded("symmetric", 4, 4) == Shape{12, 3});
  for (const auto& [mode, pad] : {std::pair("reflect", 4), std::pair("symmetric", 5)}) {
    CHECK(std::string(padded(mode, 0, pad).status().message()).find("pads an axis of 4 by") == 0);
  }
}

}  // namespace
}  // namespace paracord
