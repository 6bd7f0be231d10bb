#include "store/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace paracord {
namespace {

using nlohmann::json;

double Rate(const json& schedule, uint64_t step) {
  Problems problems;
  const LearningRate rate = ReadLearningRate(schedule, "rate", problems);
  REQUIRE(problems.ToStatus() == absl::OkStatus());
  return RateAt(rate, step);
}

TEST_CASE("the newest rate is that of the newest step, and of the first one before any") {
  Problems problems;
  const LearningRate rate = ReadLearningRate(
      {{"name", "piecewise_constant_decay"}, {"boundaries", {0, 1}}, {"values", {3, 2, 1}}}, "rate",
      problems);
  CHECK(NewestRate(rate, 0) == 3);
  CHECK(NewestRate(rate, 1) == 3);
  CHECK(NewestRate(rate, 2) == 2);
  CHECK(NewestRate(rate, 3) == 1);
}

TEST_CASE("schedules that decay by a formula of the step are Keras'") {
  json exponential = {{"name", "exponential_decay"},
                      {"initial_learning_rate", 0.1},
                      {"decay_steps", 10},
                      {"decay_rate", 0.5}};
  CHECK(Rate(exponential, 0) == Approx(0.1));
  CHECK(Rate(exponential, 5) == Approx(0.1 * std::sqrt(0.5)));
  exponential["staircase"] = true;
  CHECK(Rate(exponential, 19) == Approx(0.05));

  json inverse = {{"name", "inverse_time_decay"},
                  {"initial_learning_rate", 0.1},
                  {"decay_steps", 10},
                  {"decay_rate", 0.5}};
  CHECK(Rate(inverse, 15) == Approx(0.1 / 1.75));
  inverse["staircase"] = true;
  CHECK(Rate(inverse, 15) == Approx(0.1 / 1.5));

  const json piecewise = {
      {"name", "piecewise_constant_decay"}, {"boundaries", {3, 5}}, {"values", {1.0, 0.5, 0.1}}};
  CHECK(Rate(piecewise, 3) == 1.0);
  CHECK(Rate(piecewise, 4) == 0.5);
  CHECK(Rate(piecewise, 5) == 0.5);
  CHECK(Rate(piecewise, 6) == 0.1);

  json polynomial = {{"name", "polynomial_decay"},
                     {"initial_learning_rate", 1.0},
                     {"decay_steps", 10},
                     {"end_learning_rate", 0.1},
                     {"power", 2.0}};
  CHECK(Rate(polynomial, 5) == Approx(0.9 * 0.25 + 0.1));
  CHECK(Rate(polynomial, 50) == Approx(0.1));
  polynomial["cycle"] = true;
  CHECK(Rate(polynomial, 0) == Approx(1.0));
  CHECK(Rate(polynomial, 15) == Approx(0.9 * 0.0625 + 0.1));
}

TEST_CASE("cosine schedules, with warm-up and restarts, are Keras'") {
  json cosine = {{"name", "cosine_decay"},
                 {"initial_learning_rate", 0.2},
                 {"decay_steps", 10},
                 {"alpha", 0.1}};
  CHECK(Rate(cosine, 0) == Approx(0.2));
  CHECK(Rate(cosine, 5) == Approx(0.2 * (0.9 * 0.5 + 0.1)));
  CHECK(Rate(cosine, 99) == Approx(0.02));
  cosine["warmup_target"] = 0.4;
  cosine["warmup_steps"] = 4;
  CHECK(Rate(cosine, 0) == Approx(0.2));
  CHECK(Rate(cosine, 1) == Approx(0.25));
  CHECK(Rate(cosine, 4) == Approx(0.4));
  CHECK(Rate(cosine, 9) == Approx(0.4 * (0.9 * 0.5 + 0.1)));

  json restarts = {{"name", "cosine_decay_restarts"},
                   {"initial_learning_rate", 0.2},
                   {"first_decay_steps", 10},
                   {"alpha", 0.1},
                   {"m_mul", 0.5}};
  CHECK(Rate(restarts, 0) == Approx(0.2));
  CHECK(Rate(restarts, 5) == Approx(0.2 * (0.9 * 0.5 + 0.1)));
  CHECK(Rate(restarts, 10) == Approx(0.2 * (0.9 * 0.5 + 0.1)));  // half as high, for 20 steps
  CHECK(Rate(restarts, 20) == Approx(0.2 * (0.9 * 0.25 + 0.1)));
  CHECK(Rate(restarts, 30) == Approx(0.2 * (0.9 * 0.25 + 0.1)));  // a quarter, for 40 steps
  CHECK(Rate(restarts, 70) == Approx(0.2 * (0.9 * 0.125 + 0.1)));
  restarts["t_mul"] = 1;
  CHECK(Rate(restarts, 35) == Approx(0.2 * (0.9 * 0.0625 + 0.1)));
}

TEST_CASE("schedules that cannot be are refused by key") {
  const std::vector<std::pair<json, const char*>> bad = {
      {{{"name", "cosine_decay_restarts"}, {"initial_learning_rate", 1}}, "rate.first_decay_steps"},
      {{{"name", "cosine_decay_restarts"},
        {"initial_learning_rate", 1},
        {"first_decay_steps", 5},
        {"t_mul", 0.5}},
       "rate.t_mul"},
      {{{"name", "exponential_decay"},
        {"initial_learning_rate", 1},
        {"decay_steps", 5},
        {"decay_rate", -1}},
       "rate.decay_rate"},
      {{{"name", "linear_decay"}}, "exponential_decay, inverse_time_decay"},
      {{{"name", "cosine_decay"},
        {"initial_learning_rate", 1},
        {"decay_steps", 5},
        {"first_decay_steps", 5}},
       "rate.first_decay_steps"},
  };
  for (const double rate : {-1.0, std::nan(""), double{INFINITY}}) {
    Problems problems;
    ReadLearningRate(rate, "rate", problems);
    CHECK(problems.ToStatus().message().find("rate: must be finite and not negative, is ") == 0);
  }
  for (const auto& [schedule, key] : bad) {
    CAPTURE(schedule);
    Problems problems;
    ReadLearningRate(schedule, "rate", problems);
    CHECK(problems.ToStatus().message().find(key) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
