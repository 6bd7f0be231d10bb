#include "store/optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "store/dense_partition.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// An element with its slots in double, as in Keras' Python code.
struct Reference {
  double w = 0;
  double a = 0, b = 0, c = 0;
  using Rule = std::function<void(Reference&, double g, double t)>;
};

struct RuleCase {
  const char* name;
  json options;
  Reference::Rule rule;
  double initial_a = 0;
};

constexpr double kRate = 0.05;

auto AdamRule(double b1, double b2, double eps, bool amsgrad, double decay) {
  return [=](Reference& r, double g, double t) {
    r.w -= r.w * decay * kRate;
    const double alpha = kRate * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
    r.a += (g - r.a) * (1 - b1);
    r.b += (g * g - r.b) * (1 - b2);
    r.c = std::max(r.c, r.b);
    r.w -= r.a * alpha / (std::sqrt(amsgrad ? r.c : r.b) + eps);
  };
}

auto RmspropRule(double rho, double momentum, double eps, bool centered) {
  return [=](Reference& r, double g, double) {
    r.a = rho * r.a + (1 - rho) * g * g;
    r.c = rho * r.c + (1 - rho) * g;
    const double denominator = r.a + eps - (centered ? r.c * r.c : 0);
    const double step = kRate * g / std::sqrt(denominator);
    r.b = momentum * r.b + step;
    r.w -= momentum > 0 ? r.b : step;
  };
}

auto AdadeltaRule(double rho, double eps) {
  return [=](Reference& r, double g, double) {
    r.a = rho * r.a + (1 - rho) * g * g;
    const double delta = -std::sqrt(r.b + eps) * g / std::sqrt(r.a + eps);
    r.b = rho * r.b + (1 - rho) * delta * delta;
    r.w += kRate * delta;
  };
}

auto AdamaxRule(double b1, double b2, double eps) {
  return [=](Reference& r, double g, double t) {
    r.a += (g - r.a) * (1 - b1);
    r.b = std::max(b2 * r.b, std::abs(g));
    r.w -= kRate * r.a / ((1 - std::pow(b1, t)) * (r.b + eps));
  };
}

auto NadamRule(double b1, double b2, double eps) {
  return [=](Reference& r, double g, double t) {
    const auto u = [&](double i) { return b1 * (1 - 0.5 * std::pow(0.96, i)); };
    double product = 1;
    for (int i = 1; i <= t; ++i) product *= u(i);
    r.a += (g - r.a) * (1 - b1);
    r.b += (g * g - r.b) * (1 - b2);
    const double m = u(t + 1) * r.a / (1 - product * u(t + 1)) + (1 - u(t)) * g / (1 - product);
    r.w -= m * kRate / (std::sqrt(r.b / (1 - std::pow(b2, t))) + eps);
  };
}

auto LionRule(double b1, double b2, double decay) {
  return [=](Reference& r, double g, double) {
    r.w -= r.w * decay * kRate;
    const double mixed = r.a * b1 + g * (1 - b1);
    r.w -= kRate * (mixed > 0 ? 1 : mixed < 0 ? -1 : 0);
    r.a = r.a * b2 + g * (1 - b2);
  };
}

auto FtrlRule(double power, double l1, double l2, double shrinkage, double beta) {
  return [=](Reference& r, double g, double) {
    const double sum = r.a + g * g;
    r.b += g + 2 * shrinkage * r.w - (std::pow(sum, -power) - std::pow(r.a, -power)) / kRate * r.w;
    const double quadratic = std::pow(sum, -power) / kRate + 2 * (l2 + beta / (2 * kRate));
    r.w = (std::clamp(r.b, -l1, l1) - r.b) / quadratic;
    r.a = sum;
  };
}

auto SgdAverageRule(double keep, int every) {
  return [=](Reference& r, double g, double t) {
    r.w -= kRate * g;
    r.a = t == 1 ? r.w : keep * r.a + (1 - keep) * r.w;
    if (every > 0 && static_cast<int>(t) % every == 0) r.w = r.a;
  };
}

const std::vector<RuleCase> kCases = {
    {"sgd", {}, [](Reference& r, double g, double) { r.w -= kRate * g; }},
    {"sgd",
     {{"weight_decay", 0.1}},
     [](Reference& r, double g, double) {
       r.w -= r.w * 0.1 * kRate;
       r.w -= kRate * g;
     }},
    {"sgd",
     {{"clipvalue", 0.5}},
     [](Reference& r, double g, double) { r.w -= kRate * std::clamp(g, -0.5, 0.5); }},
    {"sgd",
     {{"momentum", 0.9}},
     [](Reference& r, double g, double) {
       r.a = 0.9 * r.a - kRate * g;
       r.w += r.a;
     }},
    {"sgd",
     {{"momentum", 0.9}, {"nesterov", true}},
     [](Reference& r, double g, double) {
       r.a = 0.9 * r.a - kRate * g;
       r.w += 0.9 * r.a - kRate * g;
     }},
    {"adagrad",
     {},
     [](Reference& r, double g, double) {
       r.a += g * g;
       r.w -= kRate * g / std::sqrt(r.a + 1e-7);
     },
     0.1},
    {"adagrad",
     {{"initial_accumulator_value", 0.5}, {"epsilon", 0.01}},
     [](Reference& r, double g, double) {
       r.a += g * g;
       r.w -= kRate * g / std::sqrt(r.a + 0.01);
     },
     0.5},
    {"rmsprop", {}, RmspropRule(0.9, 0, 1e-7, false)},
    {"rmsprop", {{"rho", 0.8}, {"momentum", 0.5}}, RmspropRule(0.8, 0.5, 1e-7, false)},
    {"rmsprop", {{"centered", true}, {"epsilon", 0.01}}, RmspropRule(0.9, 0, 0.01, true)},
    {"rmsprop",
     {{"centered", true}, {"momentum", 0.7}, {"epsilon", 0.01}},
     RmspropRule(0.9, 0.7, 0.01, true)},
    {"adam", {}, AdamRule(0.9, 0.999, 1e-7, false, 0)},
    {"adam",
     {{"beta_1", 0.8}, {"beta_2", 0.9}, {"epsilon", 0.1}},
     AdamRule(0.8, 0.9, 0.1, false, 0)},
    {"adam", {{"amsgrad", true}, {"beta_2", 0.5}}, AdamRule(0.9, 0.5, 1e-7, true, 0)},
    {"adamw", {}, AdamRule(0.9, 0.999, 1e-7, false, 0.004)},
    {"adamw", {{"weight_decay", 0.5}}, AdamRule(0.9, 0.999, 1e-7, false, 0.5)},
    {"adadelta", {{"epsilon", 0.01}}, AdadeltaRule(0.95, 0.01)},
    {"adadelta", {{"rho", 0.5}, {"epsilon", 1e-3}}, AdadeltaRule(0.5, 1e-3)},
    {"adamax", {}, AdamaxRule(0.9, 0.999, 1e-7)},
    {"adamax", {{"beta_1", 0.5}, {"beta_2", 0.25}, {"epsilon", 0.1}}, AdamaxRule(0.5, 0.25, 0.1)},
    {"nadam", {}, NadamRule(0.9, 0.999, 1e-7)},
    {"nadam", {{"beta_1", 0.6}, {"beta_2", 0.8}, {"epsilon", 0.1}}, NadamRule(0.6, 0.8, 0.1)},
    {"nadam", {{"beta_1", 0.0}}, NadamRule(0, 0.999, 1e-7)},
    {"lion", {}, LionRule(0.9, 0.99, 0)},
    {"lion", {{"beta_1", 0.4}, {"beta_2", 0.7}, {"weight_decay", 0.1}}, LionRule(0.4, 0.7, 0.1)},
    {"ftrl", {}, FtrlRule(-0.5, 0, 0, 0, 0), 0.1},
    {"ftrl",
     {{"initial_accumulator_value", 0.5},
      {"l1_regularization_strength", 0.5},
      {"l2_regularization_strength", 0.25},
      {"l2_shrinkage_regularization_strength", 0.125},
      {"beta", 0.75}},
     FtrlRule(-0.5, 0.5, 0.25, 0.125, 0.75),
     0.5},
    {"ftrl", {{"learning_rate_power", -0.75}}, FtrlRule(-0.75, 0, 0, 0, 0), 0.1},
    {"ftrl", {{"learning_rate_power", 0.0}}, FtrlRule(0, 0, 0, 0, 0), 0.1},
    {"sgd", {{"use_ema", true}, {"ema_momentum", 0.5}}, SgdAverageRule(0.5, 0)},
    {"sgd",
     {{"use_ema", true}, {"ema_momentum", 0.75}, {"ema_overwrite_frequency", 3}},
     SgdAverageRule(0.75, 3)},
};

// Steps `n` elements with random gradients, in place or from one array to another.
void Run(const Optimizer& optimizer, bool in_place, std::vector<float>& value,
         std::vector<std::vector<float>>& slots, int steps,
         const std::function<void(int, const std::vector<float>&)>& after,
         UpdateFunction update = UpdateElements) {
  SeededRandom random(7);
  const size_t n = value.size();
  for (int step = 0; step < steps; ++step) {
    std::vector<float> gradient(n);
    for (float& g : gradient) g = static_cast<float>(random.Between(-2000, 2000)) / 1000;
    std::vector<float> value_out(n);
    std::vector<std::vector<float>> slots_out(slots.size(), std::vector<float>(n));
    UpdateArrays arrays{.gradient = gradient,
                        .value_in = value.data(),
                        .value_out = in_place ? value.data() : value_out.data()};
    for (size_t s = 0; s < slots.size(); ++s) {
      arrays.slots_in[s] = slots[s].data();
      arrays.slots_out[s] = in_place ? slots[s].data() : slots_out[s].data();
    }
    REQUIRE(update(optimizer, ScalarsAt(optimizer, static_cast<uint64_t>(step)), arrays));
    if (!in_place) {
      value = value_out;
      slots = slots_out;
    }
    after(step, gradient);
  }
}

TEST_CASE("every optimizer follows Keras' formula, computed in double") {
  for (const RuleCase& c : kCases) {
    CAPTURE(c.name, c.options);
    NamedSpec spec{c.name, c.options.is_null() ? json::object() : c.options};
    spec.options["learning_rate"] = kRate;
    const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(spec);
    REQUIRE(optimizer.ok());
    const size_t n = 67;  // whole vectors and a rest
    std::vector<float> value(n);
    std::vector<Reference> reference(n);
    for (size_t i = 0; i < n; ++i) {
      value[i] = static_cast<float>(i) / 16 - 2;
      reference[i] = {.w = value[i], .a = c.initial_a};
    }
    std::vector<std::vector<float>> slots;
    for (const SlotSpec& slot : optimizer->slots) slots.emplace_back(n, slot.initial);
    Run(*optimizer, true, value, slots, 8, [&](int step, const std::vector<float>& gradient) {
      for (size_t i = 0; i < n; ++i) {
        c.rule(reference[i], gradient[i], step + 1);
        REQUIRE(value[i] == Approx(reference[i].w).epsilon(2e-5).margin(2e-5));
        if (optimizer->use_ema) {
          REQUIRE(slots.back()[i] == Approx(reference[i].a).epsilon(2e-5).margin(2e-5));
        }
      }
    });
  }
}

TEST_CASE("a moving average keeps its share and takes the rest from what is pushed") {
  Optimizer adam;
  adam.rule = Optimizer::Rule::kAdam;
  adam.slots = {{"momentum"}, {"velocity"}};
  adam.clipvalue = 0.5;
  VariableSpec variable;
  CHECK(OptimizerFor(variable, adam).rule == Optimizer::Rule::kAdam);
  const auto update = [&](double keep, std::vector<float> value, std::vector<float> observed) {
    variable.set_moving_average(keep);
    const Optimizer average = OptimizerFor(variable, adam);
    CHECK(average.slots.empty());
    const UpdateArrays arrays{observed, value.data(), value.data(), {}, {}};
    CHECK(UpdateElements(average, ScalarsAt(average, 7), arrays));
    return value;
  };
  CHECK(update(0.75, {4, -1}, {8, 3}) == std::vector<float>{5, 0});
  // A program's assigned variable: the factor is so small that the old value vanishes.
  CHECK(update(1e-300, {3e38f, 1e-38f}, {0.1f, -7e37f}) == std::vector<float>{0.1f, -7e37f});
}

TEST_CASE("a constraint comes after the update, and the average does not see it") {
  NamedSpec spec{"sgd", {{"learning_rate", 1}, {"use_ema", true}}};
  const absl::StatusOr<Optimizer> sgd = ParseOptimizer(spec);
  REQUIRE(sgd.ok());
  VariableSpec variable;
  CHECK(!OptimizerFor(variable, *sgd).non_neg);
  variable.set_constraint("non_neg");
  const Optimizer own = OptimizerFor(variable, *sgd);
  std::vector<float> value = {1, 1, -5}, average = {0, 0, 0};
  const std::vector<float> gradient = {0.5f, 3, -1};
  UpdateArrays arrays;
  arrays.gradient = gradient;
  arrays.value_in = arrays.value_out = value.data();
  arrays.slots_in[0] = arrays.slots_out[0] = average.data();
  CHECK(UpdateElements(own, ScalarsAt(own, 0), arrays));
  CHECK(value == std::vector<float>{0.5f, 0, 0});
  CHECK(average == std::vector<float>{0.5f, -2, -4});
  Optimizer plain;
  CHECK(ZeroGradientChangesNothing(OptimizerFor(VariableSpec(), plain)));
  CHECK_FALSE(ZeroGradientChangesNothing(OptimizerFor(variable, plain)));
}

TEST_CASE("in place and into other memory give the same bits") {
  for (const RuleCase& c : kCases) {
    CAPTURE(c.name, c.options);
    NamedSpec spec{c.name, c.options.is_null() ? json::object() : c.options};
    const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(spec);
    REQUIRE(optimizer.ok());
    std::vector<float> value[2] = {std::vector<float>(101, 0.5f), std::vector<float>(101, 0.5f)};
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<float>> slots;
      for (const SlotSpec& slot : optimizer->slots) slots.emplace_back(101, slot.initial);
      Run(*optimizer, in_place, value[in_place], slots, 5, [](int, const auto&) {});
    }
    CHECK(value[0] == value[1]);
  }
}

TEST_CASE("every width of vectors gives the same bits, also with averages") {
  const std::vector<UpdateFunction> widths = UpdatesOfAllWidths();
  REQUIRE(!widths.empty());
  for (const RuleCase& c : kCases) {
    for (const bool average : {false, true}) {
      CAPTURE(c.name, c.options, average);
      NamedSpec spec{c.name, c.options.is_null() ? json::object() : c.options};
      if (average) spec.options["use_ema"] = true;
      if (average) spec.options["ema_overwrite_frequency"] = 2;
      const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(spec);
      REQUIRE(optimizer.ok());
      REQUIRE(optimizer->slots.size() <= kSlotsMax);
      std::vector<std::vector<std::vector<float>>> results;
      for (const UpdateFunction update : widths) {
        std::vector<float> value(101);
        for (size_t i = 0; i < value.size(); ++i) value[i] = 0.37f * static_cast<float>(i) - 9;
        std::vector<std::vector<float>> slots;
        for (const SlotSpec& slot : optimizer->slots) slots.emplace_back(101, slot.initial);
        Run(
            *optimizer, false, value, slots, 5, [](int, const auto&) {}, update);
        slots.push_back(value);
        results.push_back(std::move(slots));
      }
      for (const auto& result : results) CHECK(result == results[0]);
    }
  }
}

TEST_CASE("a wrong learning rate hides no other wrong option") {
  for (const json& rate : {json(-1), json("x"), json{{"name", "cosine_decay"}}}) {
    CAPTURE(rate);
    const std::string said(
        ParseOptimizer(
            {"adam", {{"learning_rate", rate}, {"beta_1", 3}, {"clipnorm", -1}, {"epsilonn", 1}}})
            .status()
            .message());
    for (const char* key : {"optimizer.beta_1: ", "optimizer.learning_rate",
                            "optimizer.clipnorm: ", "optimizer.epsilonn: "}) {
      CHECK(said.find(key) != std::string::npos);
    }
  }
}

TEST_CASE("Nadam's product of momenta is that of all steps, however many") {
  const Optimizer nadam = *ParseOptimizer({"nadam", {{"beta_1", 0.999}}});
  double product = 1;
  for (int t = 1; t <= 3000; ++t) {
    const auto u = [](int i) { return 0.999 * (1 - 0.5 * std::pow(0.96, i)); };
    product *= u(t);
    const UpdateScalars scalars = ScalarsAt(nadam, static_cast<uint64_t>(t) - 1);
    REQUIRE(scalars.rate == Approx(0.001 * (1 - u(t)) / (1 - product)).epsilon(1e-6));
    REQUIRE(scalars.momentum_rate ==
            Approx(0.001 * u(t + 1) / (1 - product * u(t + 1))).epsilon(1e-6));
  }
}

TEST_CASE("an average starts as the values, which are what it is without a step") {
  const Optimizer sgd = *ParseOptimizer({"sgd", {{"use_ema", true}}});
  REQUIRE(sgd.slots.size() == 1);
  CHECK(sgd.slots[0].name == "average");
  PartitionContents contents{.value = Block(3), .slots = {}, .ledger = {}};
  contents.value.Assign(std::vector<float>{1, 2, 3});
  FillSlots(sgd, contents);
  const std::span<const float> average = contents.slots[0].chunks()[0].values();
  CHECK(std::vector<float>(average.begin(), average.end()) == std::vector<float>{1, 2, 3});
}

TEST_CASE("what Keras 2 writes is honoured where its numbers are the same") {
  const auto rate = [](json options, uint64_t step) {
    const absl::StatusOr<Optimizer> optimizer = ParseOptimizer({"adam", std::move(options)});
    REQUIRE(optimizer.ok());
    return RateAt(optimizer->learning_rate, step);
  };
  CHECK(rate({{"lr", 0.5}}, 3) == 0.5);
  CHECK(rate({{"learning_rate", 0.5}, {"decay", 0.0}}, 3) == 0.5);
  CHECK(rate({{"learning_rate", 0.5}, {"decay", 0.1}}, 5) == Approx(0.5 / 1.5));
  CHECK(ParseOptimizer({"sgd", {{"is_legacy_optimizer", true}, {"jit_compile", true}}}).ok());
  CHECK(ParseOptimizer({"rmsprop", {{"decay", 0.0}, {"momentum", 0.5}}}).ok());
  CHECK(ParseOptimizer({"adam", {{"adaptive_epsilon", false}}}).ok());
}

TEST_CASE("defaults are Keras'") {
  CHECK(RateAt(ParseOptimizer({"sgd"})->learning_rate, 0) == 0.01);
  for (const char* name :
       {"adagrad", "adadelta", "rmsprop", "adam", "adamw", "adamax", "nadam", "ftrl", "lion"}) {
    const Optimizer optimizer = *ParseOptimizer({name});
    CHECK(RateAt(optimizer.learning_rate, 5) == 0.001);
    const bool none =
        optimizer.rule == Optimizer::Rule::kFtrl || optimizer.rule == Optimizer::Rule::kLion;
    CHECK(optimizer.epsilon == (none ? 0 : 1e-7));
  }
  CHECK(ParseOptimizer({"sgd"})->slots.empty());
  CHECK(ParseOptimizer({"adam"})->slots.size() == 2);
  CHECK(ParseOptimizer({"adam"})->slots[1].name == "velocity");
  CHECK(ParseOptimizer({"adagrad"})->slots[0].initial == 0.1f);
  // Keras writes an optimizer into a model like this.
  CHECK(ParseOptimizer({"sgd",
                        {{"name", "sgd"},
                         {"weight_decay", nullptr},
                         {"clipnorm", 1.0},
                         {"clipvalue", nullptr},
                         {"use_ema", false},
                         {"ema_momentum", 0.99},
                         {"ema_overwrite_frequency", nullptr},
                         {"nesterov", false}}})
            .ok());
}

struct Bad {
  const char* name;
  json options;
  const char* key;
};

const std::vector<Bad> kBadOptions = {
    {"lyon", json::object(), "optimizer.name"},
    {"sgd", {{"beta_1", 0.9}}, "optimizer.beta_1"},
    {"sgd", {{"momentum", 1.5}}, "optimizer.momentum"},
    {"sgd", {{"momentum", "much"}}, "optimizer.momentum"},
    {"sgd", {{"nesterov", 1}}, "optimizer.nesterov"},
    {"sgd", {{"learning_rate", -1}}, "optimizer.learning_rate"},
    {"sgd", {{"learning_rate", "fast"}}, "optimizer.learning_rate"},
    {"sgd", {{"loss_scale_factor", 2}}, "optimizer.loss_scale_factor"},
    {"sgd", {{"clipvalue", 0}}, "optimizer.clipvalue"},
    {"sgd", {{"clipvalue", 1}, {"clipnorm", 1}}, "optimizer.clipvalue"},
    {"adam", {{"beta_1", 1}}, "optimizer.beta_1"},
    {"adam", {{"beta_2", -0.1}}, "optimizer.beta_2"},
    {"adam", {{"epsilon", -1}}, "optimizer.epsilon"},
    {"adamw", {{"weight_decay", -1}}, "optimizer.weight_decay"},
    {"adafactor", json::object(), "whole variables"},
    {"lamb", json::object(), "whole variable"},
    {"muon", json::object(), "whole matrices"},
    {"lossscaleoptimizer", json::object(), "the inner one"},
    {"sgd", {{"gradient_accumulation_steps", 4}}, "\"accumulate\""},
    {"sgd", {{"use_ema", true}, {"ema_momentum", 1.5}}, "optimizer.ema_momentum"},
    {"sgd", {{"use_ema", true}, {"ema_overwrite_frequency", 0}}, "ema_overwrite_frequency"},
    {"sgd", {{"use_ema", true}, {"ema_overwrite_frequency", 1.5}}, "ema_overwrite_frequency"},
    {"sgd", {{"ema_overwrite_frequency", 5}}, "optimizer.ema_overwrite_frequency: needs use_ema"},
    {"sgd", {{"use_ema", true}, {"jit_compile", false}}, "optimizer.use_ema"},
    {"sgd", {{"exclude_from_weight_decay", {"bias"}}}, "needs weight_decay"},
    {"adamw", {{"exclude_from_weight_decay", "bias"}}, "must be a list"},
    {"adamw", {{"exclude_from_weight_decay", {1}}}, "must be a list"},
    {"adamw", {{"exclude_from_weight_decay", {""}}}, "must be a list"},
    {"adamw", {{"exclude_from_weight_decay", {"bias", "("}}}, "no regular expression"},
    {"rmsprop", {{"decay", 0.0}}, "optimizer.decay"},
    {"adagrad", {{"is_legacy_optimizer", true}}, "optimizer.is_legacy_optimizer"},
    {"nadam", {{"decay", 0.1}}, "optimizer.decay"},
    {"adam", {{"decay", -0.1}}, "optimizer.decay"},
    {"adam", {{"adaptive_epsilon", true}}, "optimizer.adaptive_epsilon"},
    {"adam", {{"lr", 0.1}, {"learning_rate", 0.1}}, "optimizer.lr: is the old name of"},
    {"adam",
     {{"decay", 0.1},
      {"learning_rate",
       {{"name", "cosine_decay"}, {"initial_learning_rate", 1}, {"decay_steps", 5}}}},
     "optimizer.decay"},
    {"ftrl", {{"learning_rate_power", 0.5}}, "optimizer.learning_rate_power"},
    {"ftrl", {{"learning_rate", 0}}, "optimizer.learning_rate"},
    {"ftrl", {{"l1_regularization_strength", -1}}, "optimizer.l1_regularization_strength"},
    {"lion", {{"beta_1", 0}}, "optimizer.beta_1"},
    {"adadelta", {{"rho", 1}}, "optimizer.rho"},
    {"adam", {{"learning_rate", {{"name", "magic"}}}}, "optimizer.learning_rate.name"},
    {"adam",
     {{"learning_rate", {{"name", "exponential_decay"}, {"decay_steps", 5}, {"decay_rate", 1}}}},
     "optimizer.learning_rate.initial_learning_rate"},
    {"adam",
     {{"learning_rate",
       {{"name", "cosine_decay"}, {"initial_learning_rate", 1}, {"decay_steps", 0}}}},
     "optimizer.learning_rate.decay_steps"},
    {"adam",
     {{"learning_rate",
       {{"name", "piecewise_constant_decay"}, {"boundaries", {1, 2}}, {"values", {1, 2}}}}},
     "optimizer.learning_rate.values"},
    {"adam",
     {{"learning_rate",
       {{"name", "piecewise_constant_decay"}, {"boundaries", {2, 1}}, {"values", {1, 2, 3}}}}},
     "optimizer.learning_rate.boundaries"},
};

TEST_CASE("options that are unknown, wrong or unsupported are refused by key") {
  for (const Bad& b : kBadOptions) {
    CAPTURE(b.name, b.options);
    const absl::Status status = ParseOptimizer({b.name, b.options}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(b.key) != std::string::npos);
  }
}

TEST_CASE("a result that is not finite is reported, also in a slot") {
  const Optimizer adam = *ParseOptimizer({"adam"});
  std::vector<float> gradient(70, 0.1f);
  std::vector<float> value(70, 1.0f), m(70), v(70);
  UpdateArrays arrays{.gradient = gradient, .value_in = value.data(), .value_out = value.data()};
  arrays.slots_in = {m.data(), v.data()};
  arrays.slots_out = {m.data(), v.data()};
  CHECK(UpdateElements(adam, ScalarsAt(adam, 0), arrays));
  gradient[66] = std::numeric_limits<float>::max();  // finite, but its square is not
  CHECK_FALSE(UpdateElements(adam, ScalarsAt(adam, 1), arrays));
}

}  // namespace
}  // namespace paracord
