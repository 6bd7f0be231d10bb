// Compares gradients with central differences for transposed convolutions, volumes, layers along
// axes other than the last, and EinsumDense. Shapes are random from a seed.
#include <catch2/catch.hpp>

#include "gradient_check.h"
#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Layers = std::vector<std::pair<const char*, json>>;

json Dense(int units) { return LayerJson("Dense", {{"units", units}, {"activation", "tanh"}}); }

void Check(const Layers& layers, std::vector<uint64_t> shape) {
  for (const auto& [name, config] : layers) {
    for (uint32_t seed = 1; seed < 4; ++seed) {
      std::vector<uint64_t> sizes = shape;
      for (size_t i = 0; i + 1 < sizes.size(); ++i) sizes[i] += (seed + i) % 2;
      CheckGradients(Around(Dense(3), LayerJson(name, config)), "mse", SchemaOf(sizes, {2}), 0,
                     seed);
    }
  }
}

TEST_CASE("gradients of transposed convolutions agree with differences") {
  Check({{"Conv2DTranspose", {{"filters", 2}, {"kernel_size", {2, 3}}, {"strides", {3, 2}}}},
         {"Conv2DTranspose",
          {{"filters", 3}, {"kernel_size", 3}, {"padding", "same"}, {"activation", "relu"}}},
         {"Conv2DTranspose",
          {{"filters", 1},
           {"kernel_size", 3},
           {"strides", 2},
           {"padding", "same"},
           {"output_padding", {1, 0}},
           {"data_format", "channels_first"}}}},
        {2, 3, 2});
  Check({{"Conv1DTranspose", {{"filters", 2}, {"kernel_size", 2}, {"dilation_rate", 2}}},
         {"Conv1DTranspose", {{"filters", 2}, {"kernel_size", 2}, {"strides", 3}}}},
        {3, 2});
}

TEST_CASE("gradients of a Rescaling by arrays agree with differences") {
  for (const json& scale : {json{2.0, 0.5, -1.5}, json{{{{0.25}}}}}) {
    CheckGradients(Around(Dense(3), LayerJson("Rescaling", {{"scale", scale}, {"offset", {1}}})),
                   "mse", SchemaOf({2, 2, 2}, {2}), 0, 1);
  }
}

TEST_CASE("gradients of layers over volumes agree with differences") {
  Check({{"Conv3D", {{"filters", 2}, {"kernel_size", 2}, {"strides", {2, 1, 2}}}},
         {"Conv3D",
          {{"filters", 2},
           {"kernel_size", {3, 1, 2}},
           {"padding", "same"},
           {"dilation_rate", {2, 1, 1}},
           {"use_bias", false}}},
         {"AveragePooling3D", {{"pool_size", 2}, {"strides", 1}, {"padding", "same"}}},
         {"GlobalAveragePooling3D", json::object()},
         {"ZeroPadding3D", {{"padding", {{1, 0}, {0, 2}, {1, 1}}}}},
         {"Cropping3D", {{"cropping", {1, 0, 0}}}},
         {"UpSampling3D", {{"size", {1, 2, 1}}}},
         {"SpatialDropout3D", {{"rate", 0.3}}}},
        {3, 2, 2, 2});
}

TEST_CASE("gradients of images resized, cropped, flipped and of other colours agree") {
  const json wide = {-9, 9};
  Check({{"Resizing", {{"height", 5}, {"width", 3}}},
         {"Resizing", {{"height", 2}, {"width", 7}, {"interpolation", "nearest"}}},
         {"Resizing", {{"height", 3}, {"width", 7}, {"crop_to_aspect_ratio", true}}},
         {"Resizing", {{"height", 3}, {"width", 9}, {"pad_to_aspect_ratio", true}}},
         {"CenterCrop", {{"height", 2}, {"width", 3}}},
         {"CenterCrop", {{"height", 6}, {"width", 4}}},
         {"RandomCrop", {{"height", 2}, {"width", 2}}},
         {"RandomCrop", {{"height", 9}, {"width", 3}}},
         {"RandomFlip", {{"mode", "horizontal_and_vertical"}}},
         {"RandomBrightness", {{"factor", 0.1}, {"value_range", wide}}},
         {"RandomContrast", {{"factor", 0.5}, {"value_range", wide}}}},
        {4, 5, 2});
}

TEST_CASE("gradients of layers along other axes than the last agree with differences") {
  Check(
      {{"LayerNormalization", {{"axis", 1}}},
       {"LayerNormalization", {{"axis", {1, 3}}}},
       {"BatchNormalization", {{"axis", 2}}},
       {"BatchNormalization", {{"axis", 3}}},
       {"GroupNormalization", {{"axis", 1}, {"groups", -1}}},
       {"UnitNormalization", {{"axis", 2}}},
       {"Softmax", {{"axis", 1}}},
       {"SeparableConv2D", {{"filters", 2}, {"kernel_size", 2}, {"data_format", "channels_first"}}},
       {"GlobalAveragePooling2D", {{"data_format", "channels_first"}}},
       {"Flatten", {{"data_format", "channels_first"}}}},
      {3, 4, 2});
}

TEST_CASE("gradients of EinsumDense agree with differences, for any order of axes") {
  const auto einsum = [](const char* equation, json shape, json bias) {
    return std::pair<const char*, json>(
        "EinsumDense", {{"equation", equation}, {"output_shape", shape}, {"bias_axes", bias}});
  };
  Check({einsum("abcd,de->abce", {nullptr, nullptr, 2}, "e"),
         einsum("abcd,fecd->aebf", {2, nullptr, 3}, "ef"), einsum("...x,xy->...y", 2, "y"),
         einsum("ab...,cb->ac...", 2, nullptr)},
        {2, 3, 2});
}

TEST_CASE("an axis that the input does not have, or an equation without sense, is an error") {
  const auto message = [](const char* name, json config) {
    const auto built =
        BuildKerasProgram(JobFor(Around(Dense(3), LayerJson(name, std::move(config))), "mse"),
                          SchemaOf({3, 2}, {2}), TestOps());
    return std::string(built.status().message());
  };
  CHECK(message("LayerNormalization", {{"axis", 3}}).find("3 is no axis of (3, 3)") !=
        std::string::npos);
  CHECK(message("Softmax", {{"axis", 0}}).find("\"axis\"") != std::string::npos);
  CHECK(message("BatchNormalization", {{"axis", {1, 1}}}).find("\"axis\"") != std::string::npos);
  CHECK(message("Conv2D", {{"filters", 1}, {"kernel_size", 1}, {"data_format", "channels_first"}})
            .find("(height, width, channels)") != std::string::npos);
  for (const char* equation :
       {"", "abc", "abc,cd", "abc,cd->ab1", "aab,bc->ac", "abc,cd->abe", "abc,cd->bad",
        "abc,ad->acd", "ab,bc->ac", "...", "abc,->ab", "abc,cde->abd", "abc,cd->ad"}) {
    INFO(equation);
    const std::string error =
        message("EinsumDense", {{"equation", equation}, {"output_shape", {nullptr, 2}}});
    CHECK(error.find("\"equation\"") != std::string::npos);
  }
}

TEST_CASE("outputs that are wrong alike share the gradient of a categorical hinge") {
  const json model = SequentialJson({LayerJson("Dense", {{"units", 3}})});
  const auto program =
      BuildKerasProgram(JobFor(model, "categorical_hinge"), SchemaOf({1}, {3}), TestOps()).value();
  Variables variables(*program);  // all zero
  Batch batch = RandomBatch(SchemaOf({1}, {3}), 1, 0, 1);
  batch.targets[0].values = {0, 1, 0};
  const auto loss =
      program->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
  REQUIRE(loss.ok());
  CHECK(*loss == 1);
  CHECK_THAT(variables.gradients[1],
             Catch::Matchers::Approx(std::vector<float>{1 / 3.f, -1, 1 / 3.f}));
}

}  // namespace
}  // namespace paracord
