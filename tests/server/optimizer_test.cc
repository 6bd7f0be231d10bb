#include "server/optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// One element, its slots, in double, as Keras' Python reads.
struct Reference {
  double w = 0;
  double a = 0, b = 0, c = 0;
  using Rule = std::function<void(Reference&, double g, double t)>;
};

struct Case {
  const char* name;
  json options;
  Reference::Rule rule;
  double initial_a = 0;
};

constexpr double kRate = 0.05;

std::vector<Case> Cases() {
  const auto adam = [](double b1, double b2, double eps, bool amsgrad, double decay) {
    return [=](Reference& r, double g, double t) {
      r.w -= r.w * decay * kRate;
      const double alpha = kRate * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
      r.a += (g - r.a) * (1 - b1);
      r.b += (g * g - r.b) * (1 - b2);
      r.c = std::max(r.c, r.b);
      r.w -= r.a * alpha / (std::sqrt(amsgrad ? r.c : r.b) + eps);
    };
  };
  const auto rmsprop = [](double rho, double momentum, double eps, bool centered) {
    return [=](Reference& r, double g, double) {
      r.a = rho * r.a + (1 - rho) * g * g;
      r.c = rho * r.c + (1 - rho) * g;
      const double denominator = r.a + eps - (centered ? r.c * r.c : 0);
      const double step = kRate * g / std::sqrt(denominator);
      r.b = momentum * r.b + step;
      r.w -= momentum > 0 ? r.b : step;
    };
  };
  return {
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
      {"rmsprop", {}, rmsprop(0.9, 0, 1e-7, false)},
      {"rmsprop", {{"rho", 0.8}, {"momentum", 0.5}}, rmsprop(0.8, 0.5, 1e-7, false)},
      {"rmsprop", {{"centered", true}, {"epsilon", 0.01}}, rmsprop(0.9, 0, 0.01, true)},
      {"rmsprop",
       {{"centered", true}, {"momentum", 0.7}, {"epsilon", 0.01}},
       rmsprop(0.9, 0.7, 0.01, true)},
      {"adam", {}, adam(0.9, 0.999, 1e-7, false, 0)},
      {"adam", {{"beta_1", 0.8}, {"beta_2", 0.9}, {"epsilon", 0.1}}, adam(0.8, 0.9, 0.1, false, 0)},
      {"adam", {{"amsgrad", true}, {"beta_2", 0.5}}, adam(0.9, 0.5, 1e-7, true, 0)},
      {"adamw", {}, adam(0.9, 0.999, 1e-7, false, 0.004)},
      {"adamw", {{"weight_decay", 0.5}}, adam(0.9, 0.999, 1e-7, false, 0.5)},
  };
}

// Steps `n` elements with gradients from a seed; in place, or from one array to another.
void Run(const Optimizer& optimizer, bool in_place, std::vector<float>& value,
         std::vector<std::vector<float>>& slots, int steps,
         const std::function<void(int, const std::vector<float>&)>& after) {
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
    REQUIRE(Update(optimizer, ScalarsAt(optimizer, static_cast<uint64_t>(step)), arrays));
    if (!in_place) {
      value = value_out;
      slots = slots_out;
    }
    after(step, gradient);
  }
}

TEST_CASE("every optimizer follows Keras' formula, computed in double") {
  for (const Case& c : Cases()) {
    CAPTURE(c.name, c.options);
    NamedSpec spec{c.name, c.options.is_null() ? json::object() : c.options};
    spec.options["learning_rate"] = kRate;
    const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(spec);
    REQUIRE(optimizer.ok());
    const size_t n = 67;  // vector lanes and a rest
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
      }
    });
  }
}

TEST_CASE("a moving average keeps its share and takes the rest from what is pushed") {
  Optimizer adam;
  adam.rule = Optimizer::Rule::kAdam;
  adam.slots = {{"momentum"}, {"velocity"}};
  adam.clipvalue = 0.5;
  const Optimizer average = OptimizerFor(0.75, adam);
  CHECK(average.slots.empty());
  CHECK(OptimizerFor(0, adam).rule == Optimizer::Rule::kAdam);
  std::vector<float> value = {4, -1};
  const std::vector<float> observed = {8, 3};
  UpdateArrays arrays;
  arrays.gradient = observed;
  arrays.value_in = value.data();
  arrays.value_out = value.data();
  CHECK(Update(average, ScalarsAt(average, 7), arrays));
  CHECK(value == std::vector<float>{5, 0});
}

TEST_CASE("in place and into other memory give the same bits") {
  for (const Case& c : Cases()) {
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

TEST_CASE("defaults are Keras'") {
  CHECK(RateAt(ParseOptimizer({"sgd"})->learning_rate, 0) == 0.01);
  for (const char* name : {"adagrad", "rmsprop", "adam", "adamw"}) {
    CHECK(RateAt(ParseOptimizer({name})->learning_rate, 5) == 0.001);
    CHECK(ParseOptimizer({name})->epsilon == 1e-7);
  }
  CHECK(ParseOptimizer({"sgd"})->slots.empty());
  CHECK(ParseOptimizer({"adam"})->slots.size() == 2);
  CHECK(ParseOptimizer({"adam"})->slots[1].name == "velocity");
  CHECK(ParseOptimizer({"adagrad"})->slots[0].initial == 0.1f);
  // As Keras writes an optimizer into a model.
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

TEST_CASE("options that are unknown, wrong or unsupported are refused by key") {
  struct Bad {
    const char* name;
    json options;
    const char* key;
  };
  const std::vector<Bad> bad = {
      {"lion", json::object(), "optimizer.name"},
      {"sgd", {{"beta_1", 0.9}}, "optimizer.beta_1"},
      {"sgd", {{"momentum", 1.5}}, "optimizer.momentum"},
      {"sgd", {{"momentum", "much"}}, "optimizer.momentum"},
      {"sgd", {{"nesterov", 1}}, "optimizer.nesterov"},
      {"sgd", {{"learning_rate", -1}}, "optimizer.learning_rate"},
      {"sgd", {{"learning_rate", "fast"}}, "optimizer.learning_rate"},
      {"sgd", {{"use_ema", true}}, "optimizer.use_ema"},
      {"sgd", {{"loss_scale_factor", 2}}, "optimizer.loss_scale_factor"},
      {"sgd", {{"clipvalue", 0}}, "optimizer.clipvalue"},
      {"sgd", {{"clipvalue", 1}, {"clipnorm", 1}}, "optimizer.clipvalue"},
      {"adam", {{"beta_1", 1}}, "optimizer.beta_1"},
      {"adam", {{"beta_2", -0.1}}, "optimizer.beta_2"},
      {"adam", {{"epsilon", -1}}, "optimizer.epsilon"},
      {"adamw", {{"weight_decay", -1}}, "optimizer.weight_decay"},
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
  for (const Bad& b : bad) {
    CAPTURE(b.name, b.options);
    const absl::Status status = ParseOptimizer({b.name, b.options}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(b.key) != std::string::npos);
  }
}

TEST_CASE("schedules follow Keras' formulas") {
  const auto rate = [](json schedule, uint64_t step) {
    const absl::StatusOr<LearningRate> parsed = ParseLearningRate(schedule, "rate");
    REQUIRE(parsed.ok());
    return RateAt(*parsed, step);
  };
  json exponential = {{"name", "exponential_decay"},
                      {"initial_learning_rate", 0.1},
                      {"decay_steps", 10},
                      {"decay_rate", 0.5}};
  CHECK(rate(exponential, 0) == Approx(0.1));
  CHECK(rate(exponential, 5) == Approx(0.1 * std::sqrt(0.5)));
  exponential["staircase"] = true;
  CHECK(rate(exponential, 19) == Approx(0.05));

  json inverse = {{"name", "inverse_time_decay"},
                  {"initial_learning_rate", 0.1},
                  {"decay_steps", 10},
                  {"decay_rate", 0.5}};
  CHECK(rate(inverse, 15) == Approx(0.1 / 1.75));
  inverse["staircase"] = true;
  CHECK(rate(inverse, 15) == Approx(0.1 / 1.5));

  const json piecewise = {
      {"name", "piecewise_constant_decay"}, {"boundaries", {3, 5}}, {"values", {1.0, 0.5, 0.1}}};
  CHECK(rate(piecewise, 3) == 1.0);
  CHECK(rate(piecewise, 4) == 0.5);
  CHECK(rate(piecewise, 5) == 0.5);
  CHECK(rate(piecewise, 6) == 0.1);

  json polynomial = {{"name", "polynomial_decay"},
                     {"initial_learning_rate", 1.0},
                     {"decay_steps", 10},
                     {"end_learning_rate", 0.1},
                     {"power", 2.0}};
  CHECK(rate(polynomial, 5) == Approx(0.9 * 0.25 + 0.1));
  CHECK(rate(polynomial, 50) == Approx(0.1));
  polynomial["cycle"] = true;
  CHECK(rate(polynomial, 0) == Approx(1.0));
  CHECK(rate(polynomial, 15) == Approx(0.9 * 0.0625 + 0.1));

  json cosine = {{"name", "cosine_decay"},
                 {"initial_learning_rate", 0.2},
                 {"decay_steps", 10},
                 {"alpha", 0.1}};
  CHECK(rate(cosine, 0) == Approx(0.2));
  CHECK(rate(cosine, 5) == Approx(0.2 * (0.9 * 0.5 + 0.1)));
  CHECK(rate(cosine, 99) == Approx(0.02));
  cosine["warmup_target"] = 0.4;
  cosine["warmup_steps"] = 4;
  CHECK(rate(cosine, 0) == Approx(0.2));
  CHECK(rate(cosine, 1) == Approx(0.25));
  CHECK(rate(cosine, 4) == Approx(0.4));
  CHECK(rate(cosine, 9) == Approx(0.4 * (0.9 * 0.5 + 0.1)));
}

TEST_CASE("a result that is not finite is reported, also in a slot") {
  const Optimizer adam = *ParseOptimizer({"adam"});
  std::vector<float> gradient(70, 0.1f);
  std::vector<float> value(70, 1.0f), m(70), v(70);
  UpdateArrays arrays{.gradient = gradient, .value_in = value.data(), .value_out = value.data()};
  arrays.slots_in = {m.data(), v.data()};
  arrays.slots_out = {m.data(), v.data()};
  CHECK(Update(adam, ScalarsAt(adam, 0), arrays));
  gradient[66] = std::numeric_limits<float>::max();  // finite, its square is not
  CHECK_FALSE(Update(adam, ScalarsAt(adam, 1), arrays));
}

}  // namespace
}  // namespace paracord
