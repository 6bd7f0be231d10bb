// Compares gradients with central differences of the loss. Shapes are random from a seed.
#include <catch2/catch.hpp>
#include <random>

#include "gradient_check.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

json Conv(int filters, std::vector<int> size, json more) {
  more["filters"] = filters;
  more["kernel_size"] = size;
  return LayerJson("Conv2D", more);
}

TEST_CASE("gradients of layers over images agree with differences") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    const int groups = draw(1, 2), channels = groups * draw(1, 3);
    const bool dilate = draw(0, 1) == 1;
    const std::string padding = draw(0, 1) == 0 ? "valid" : "same";
    const std::vector<int> some{draw(1, 2), draw(1, 3)}, one{1, 1};
    const json first = Conv(groups * draw(1, 3), {draw(1, 3), draw(1, 3)},
                            {{"groups", groups},
                             {"padding", padding},
                             {"strides", dilate ? one : some},
                             {"dilation_rate", dilate ? some : one},
                             {"use_bias", draw(0, 1) == 1},
                             {"activation", draw(0, 1) == 0 ? "relu" : "tanh"}});
    // Without max pooling, whose loss has corners everywhere.
    const json pool = LayerJson("AveragePooling2D",
                                {{"pool_size", {draw(1, 2), draw(1, 3)}}, {"padding", "same"}});
    const json model = SequentialJson(
        {first, pool, Conv(2, {1, 2}, {{"padding", "same"}}), LayerJson("Flatten", json::object()),
         LayerJson("Dropout", {{"rate", 0.25}}), LayerJson("Dense", {{"units", 3}})});
    CheckGradients(model, "mse",
                   SchemaOf({static_cast<uint64_t>(draw(7, 10)), static_cast<uint64_t>(draw(7, 10)),
                             static_cast<uint64_t>(channels)},
                            {3}),
                   0, seed);
  }
}

TEST_CASE("gradients of max pooling agree with differences") {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const json model =
        SequentialJson({Conv(2, {2, 2}, json::object()),
                        LayerJson("MaxPooling2D", {{"pool_size", 2 + seed % 2},
                                                   {"strides", 1 + seed % 3},
                                                   {"padding", seed % 2 == 0 ? "same" : "valid"}}),
                        LayerJson("Flatten", json::object()), LayerJson("Dense", {{"units", 2}})});
    CheckGradients(model, "mse", SchemaOf({6, 7, 1}, {2}), 0, seed);
  }
}

TEST_CASE("gradients of every activation agree with differences") {
  for (const char* activation :
       {"linear",       "relu",        "leaky_relu", "elu",         "selu",        "sigmoid",
        "hard_sigmoid", "tanh",        "softplus",   "softsign",    "exponential", "silu",
        "swish",        "gelu",        "softmax",    "log_softmax", "celu",        "mish",
        "log_sigmoid",  "tanh_shrink", "squareplus", "sparse_plus", "hard_silu"}) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const json model =
          SequentialJson({LayerJson("Dense", {{"units", 5}, {"activation", activation}}),
                          LayerJson("Activation", {{"activation", activation}}),
                          LayerJson("Dense", {{"units", 2}})});
      CheckGradients(model, "mse", SchemaOf({4}, {2}), 0, seed);
    }
  }
}

TEST_CASE("gradients of every loss agree with differences, fused and not") {
  struct LossCase {
    const char* loss;
    const char* activation;
    std::vector<uint64_t> targets;
    uint32_t classes;
  };
  const LossCase cases[] = {
      {"sparse_categorical_crossentropy", "softmax", {}, 4},
      {"sparse_categorical_crossentropy", "sigmoid", {1}, 4},
      {"categorical_crossentropy", "softmax", {4}, 2},
      {"categorical_crossentropy", "softplus", {4}, 2},
      {"binary_crossentropy", "sigmoid", {4}, 2},
      {"binary_crossentropy", "softmax", {4}, 2},
      {"binary_focal_crossentropy", "sigmoid", {4}, 2},
      {"binary_focal_crossentropy", "softmax", {4}, 2},
      {"categorical_focal_crossentropy", "softmax", {4}, 2},
      {"categorical_focal_crossentropy", "softplus", {4}, 2},
      {"mean_squared_error", "tanh", {4}, 0},
      {"mean_absolute_error", "linear", {4}, 0},
  };
  for (const LossCase& c : cases) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      INFO(c.loss << " of " << c.activation);
      const json model =
          SequentialJson({LayerJson("Dense", {{"units", 5}, {"activation", "tanh"}}),
                          LayerJson("Dense", {{"units", 4}, {"activation", c.activation}})});
      // With logits, the gradient is right only for targets that sum to 1.
      const bool one_hot = std::string(c.loss) == "categorical_crossentropy";
      CheckGradients(model, c.loss, SchemaOf({3}, c.targets), c.classes, seed, [&](Batch& batch) {
        std::vector<float>& y = batch.targets[0].values;
        for (size_t i = 0; i < y.size() && one_hot; ++i) y[i] = i % 4 == i / 4 % 3 ? 1.f : 0.f;
      });
    }
  }
}

TEST_CASE("gradients of layers over steps agree with differences") {
  const std::vector<std::pair<const char*, json>> layers = {
      {"Conv1D", {{"filters", 3}, {"kernel_size", 2}, {"padding", "causal"}}},
      {"SeparableConv1D", {{"filters", 3}, {"kernel_size", 2}, {"activation", "tanh"}}},
      {"AveragePooling1D", {{"pool_size", 2}, {"padding", "same"}}},
      {"GlobalAveragePooling1D", json::object()},
      {"LayerNormalization", json::object()},
      {"BatchNormalization", json::object()},
      {"Permute", {{"dims", {2, 1}}}},
      {"ZeroPadding1D", {{"padding", {1, 2}}}},
      {"Cropping1D", {{"cropping", 1}}},
      {"UpSampling1D", {{"size", 2}}},
      {"SpatialDropout1D", {{"rate", 0.4}}},
      {"GaussianNoise", {{"stddev", 0.4}}},
      {"GaussianDropout", {{"rate", 0.2}}},
      {"AlphaDropout", {{"rate", 0.3}}},
      {"AlphaDropout", {{"rate", 0.3}, {"noise_shape", {nullptr, 1, nullptr}}}},
      {"Dropout", {{"rate", 0.3}, {"noise_shape", {1, nullptr, 1}}}},
      {"GlobalMaxPooling1D", json::object()},
      {"TimeDistributed", {{"layer", LayerJson("BatchNormalization", {{"name", "b"}})}}},
      {"SimpleRNN", {{"units", 3}, {"return_sequences", true}}},
      {"LSTM", {{"units", 2}, {"dropout", 0.3}, {"recurrent_dropout", 0.4}}},
      {"LSTM", {{"units", 3}, {"return_sequences", true}, {"go_backwards", true}}},
      {"GRU", {{"units", 2}, {"dropout", 0.3}, {"recurrent_dropout", 0.4}}},
      {"GRU", {{"units", 2}, {"recurrent_dropout", 0.4}, {"reset_after", false}}},
  };
  for (const auto& [name, config] : layers) {
    for (uint32_t seed = 1; seed < 5; ++seed) {
      const json first = LayerJson("Dense", {{"units", 2 + seed % 3}, {"activation", "tanh"}});
      CheckGradients(Around(first, LayerJson(name, config)), "mse",
                     SchemaOf({4 + seed % 3, 1 + seed % 2}, {2}), 0, seed);
    }
  }
}

TEST_CASE("gradients of more layers over images agree with differences") {
  const std::vector<std::pair<const char*, json>> layers = {
      {"DepthwiseConv2D", {{"kernel_size", {2, 3}}, {"depth_multiplier", 2}}},
      {"SeparableConv2D", {{"filters", 3}, {"kernel_size", 2}, {"strides", 2}}},
      {"GlobalAveragePooling2D", json::object()},
      {"ZeroPadding2D", {{"padding", {{1, 0}, {2, 1}}}}},
      {"Cropping2D", {{"cropping", {1, 0}}}},
      {"UpSampling2D", {{"size", {2, 1}}}},
      {"UpSampling2D", {{"size", {2, 3}}, {"interpolation", "bilinear"}}},
      {"SpatialDropout2D", {{"rate", 0.3}}},
      {"BatchNormalization", {{"epsilon", 0.01}}},
  };
  for (const auto& [name, config] : layers) {
    for (uint32_t seed = 1; seed < 4; ++seed) {
      CheckGradients(Around(Conv(2, {1, 1}, {{"use_bias", false}}), LayerJson(name, config)), "mse",
                     SchemaOf({5 + seed % 2, 6, 1 + seed % 2}, {2}), 0, seed);
    }
  }
}

}  // namespace
}  // namespace paracord
