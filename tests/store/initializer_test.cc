#include "store/initializer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace paracord {
namespace {

VariableSpec Variable(const std::string& initializer, std::vector<uint64_t> shape,
                      const std::map<std::string, double>& options = {}) {
  VariableSpec variable;
  variable.set_name("dense/kernel");
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  variable.mutable_initializer()->set_name(initializer);
  for (const auto& [key, value] : options) {
    (*variable.mutable_initializer()->mutable_options())[key] = value;
  }
  return variable;
}

std::vector<float> Values(const VariableSpec& variable, uint64_t seed = 1) {
  uint64_t elements = 1;
  for (const uint64_t dimension : variable.shape()) elements *= dimension;
  std::vector<float> values(elements);
  REQUIRE(Initialize(variable, seed, 0, values).ok());
  return values;
}

struct Moments {
  double mean = 0, stddev = 0, low = 0, high = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments m{.low = values[0], .high = values[0]};
  for (const float v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.low = std::min(m.low, double{v});
    m.high = std::max(m.high, double{v});
  }
  for (const float v : values) m.stddev += (v - m.mean) * (v - m.mean);
  m.stddev = std::sqrt(m.stddev / static_cast<double>(values.size()));
  return m;
}

TEST_CASE("an element depends on seed, name and place alone, not on how a variable is cut") {
  for (const char* name : {"glorot_uniform", "random_normal", "truncated_normal", "he_normal"}) {
    const VariableSpec variable = Variable(name, {100, 30});
    const std::vector<float> whole = Values(variable);
    for (const uint64_t cut : {uint64_t{0}, uint64_t{1}, uint64_t{30}, uint64_t{1777}}) {
      std::vector<float> rest(3000 - cut);
      REQUIRE(Initialize(variable, 1, cut, rest).ok());
      CHECK(rest == std::vector<float>(whole.begin() + static_cast<int64_t>(cut), whole.end()));
    }
    CHECK(Values(variable, 2) != whole);
    VariableSpec other = variable;
    other.set_name("dense_1/kernel");
    CHECK(Values(other) != whole);
  }
}

TEST_CASE("distributions have Keras' spread, by the fans of the whole variable") {
  struct Case {
    const char* name;
    std::vector<uint64_t> shape;
    double stddev;
    double limit;  // no value exceeds it
  };
  const double cut = 2 / 0.87962566103423978;
  const std::vector<Case> cases = {
      {"glorot_uniform", {300, 100}, std::sqrt(2.0 / 400), std::sqrt(6.0 / 400)},
      {"glorot_normal", {300, 100}, std::sqrt(2.0 / 400), cut * std::sqrt(2.0 / 400)},
      {"he_uniform", {300, 100}, std::sqrt(2.0 / 300), std::sqrt(6.0 / 300)},
      {"he_normal", {300, 100}, std::sqrt(2.0 / 300), cut * std::sqrt(2.0 / 300)},
      {"lecun_uniform", {300, 100}, std::sqrt(1.0 / 300), std::sqrt(3.0 / 300)},
      {"lecun_normal", {300, 100}, std::sqrt(1.0 / 300), cut * std::sqrt(1.0 / 300)},
      {"glorot_uniform", {3, 3, 64, 32}, std::sqrt(2.0 / (9 * 96)), std::sqrt(6.0 / (9 * 96))},
      {"he_normal", {30000}, std::sqrt(2.0 / 30000), cut * std::sqrt(2.0 / 30000)},
      {"random_uniform", {300, 100}, 0.1 / std::sqrt(12.0), 0.05},
      {"random_normal", {300, 100}, 0.05, 0.05 * 6},
      {"truncated_normal", {300, 100}, 0.05 * 0.87962566103423978, 0.1},
      {"variance_scaling", {300, 100}, std::sqrt(1.0 / 300), cut * std::sqrt(1.0 / 300)},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name, c.shape);
    const Moments m = MomentsOf(Values(Variable(c.name, c.shape)));
    CHECK(std::abs(m.mean) < 0.05 * c.stddev);
    CHECK(m.stddev == Approx(c.stddev).epsilon(0.03));
    CHECK(m.low >= -c.limit * 1.000001);
    CHECK(m.high <= c.limit * 1.000001);
    CHECK(m.high > 0.95 * std::min(c.limit, 3 * c.stddev));
  }
}

TEST_CASE("the fans that a layer gives count, instead of those of the shape") {
  for (const char* name : {"glorot_uniform", "variance_scaling"}) {
    const Moments by_shape = MomentsOf(Values(Variable(name, {8, 40, 100})));
    const Moments given =
        MomentsOf(Values(Variable(name, {8, 40, 100}, {{"fan_in", 8}, {"fan_out", 4000}})));
    const bool average = std::string(name) == "glorot_uniform";
    CHECK(by_shape.stddev == Approx(std::sqrt(average ? 2.0 / 1120 : 1 / 320.0)).epsilon(0.03));
    CHECK(given.stddev == Approx(std::sqrt(average ? 2.0 / 4008 : 1 / 8.0)).epsilon(0.03));
  }
  std::vector<float> out(16);
  CHECK(!Initialize(Variable("random_normal", {4, 4}, {{"fan_in", 8}}), 1, 0, out).ok());
}

TEST_CASE("a variable that starts from a file says so where the job has none") {
  std::vector<float> out(16);
  const absl::Status status = Initialize(Variable("initial_weights", {4, 4}), 1, 0, out);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("the job names none that has it") != std::string::npos);
}

TEST_CASE("an orthogonal matrix has orthonormal rows or columns, and any part of it is the same") {
  for (const auto& shape : {std::pair{6, 24}, {24, 6}, {8, 8}, {1, 5}, {5, 1}}) {
    const int rows = shape.first, columns = shape.second;
    INFO(rows << " by " << columns);
    const VariableSpec variable = Variable(
        "orthogonal", {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)}, {{"gain", 2}});
    const std::vector<float> q = Values(variable);
    const bool wide = rows < columns;
    const int count = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](int vector, int i) {
      return static_cast<double>(
          q[static_cast<size_t>(wide ? vector * columns + i : i * columns + vector)]);
    };
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        double dot = 0;
        for (int i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
        CHECK(dot == Approx(a == b ? 4 : 0).margin(1e-5));
      }
    }
    for (size_t cut = 0; cut < q.size(); cut += 5) {
      std::vector<float> rest(q.size() - cut);
      REQUIRE(Initialize(variable, 1, cut, rest).ok());
      CHECK(rest == std::vector<float>(q.begin() + static_cast<int64_t>(cut), q.end()));
    }
  }
  const Moments m = MomentsOf(Values(Variable("orthogonal", {64, 256})));
  CHECK(m.mean == Approx(0).margin(0.005));
  CHECK(m.stddev == Approx(1.0 / 16).epsilon(0.02));
}

TEST_CASE("the bias of an LSTM's forget gate is one") {
  const VariableSpec variable = Variable("zeros", {12}, {{"unit_forget", 1}});
  CHECK(Values(variable) == std::vector<float>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  std::vector<float> part(5);
  REQUIRE(Initialize(variable, 1, 4, part).ok());
  CHECK(part == std::vector<float>{1, 1, 0, 0, 0});
}

TEST_CASE("options and constants are taken as given") {
  CHECK(Values(Variable("zeros", {2})) == std::vector<float>{0, 0});
  CHECK(Values(Variable("ones", {})) == std::vector<float>{1});
  CHECK(Values(Variable("constant", {2}, {{"value", 0.25}})) == std::vector<float>{0.25f, 0.25f});
  CHECK(Values(Variable("identity", {2, 3}, {{"gain", 2}})) ==
        std::vector<float>{2, 0, 0, 0, 2, 0});
  const Moments uniform =
      MomentsOf(Values(Variable("random_uniform", {10000}, {{"minval", 3}, {"maxval", 4}})));
  CHECK(uniform.low >= 3);
  CHECK(uniform.high <= 4);
  const Moments normal =
      MomentsOf(Values(Variable("random_normal", {10000}, {{"mean", 5}, {"stddev", 2}})));
  CHECK(normal.mean == Approx(5).epsilon(0.02));
  CHECK(normal.stddev == Approx(2).epsilon(0.03));
  const Moments scaled = MomentsOf(Values(
      Variable("variance_scaling", {100, 400}, {{"scale", 3}, {"mode", 2}, {"distribution", 2}})));
  CHECK(scaled.stddev == Approx(std::sqrt(3.0 / 250)).epsilon(0.02));
}

TEST_CASE("these very numbers come out, so that a job can be repeated by a later version") {
  const std::vector<float> values = Values(Variable("random_uniform", {4}));
  CHECK(values[0] == static_cast<float>(0.029846398417700717));
  CHECK(values[3] == static_cast<float>(-0.024905962894501466));
}

TEST_CASE("initializers and options that do not exist are refused by name") {
  std::vector<float> out(4);
  for (const VariableSpec& variable :
       {Variable("orthogonal", {4}), Variable("orthogonall", {2, 2}), Variable("", {2, 2}),
        Variable("Zeros", {4}), Variable("identity", {4}), Variable("zeros", {4}, {{"value", 1}}),
        Variable("variance_scaling", {4}, {{"mode", 3}}),
        Variable("variance_scaling", {4}, {{"scale", 0}}),
        Variable("variance_scaling", {4}, {{"distribution", 0.5}}),
        Variable("constant", {4}, {{"value", std::nan("")}}),
        Variable("constant", {4}, {{"value", 1e39}}),
        Variable("random_uniform", {4}, {{"minval", -1e39}}),
        Variable("random_normal", {4}, {{"mean", 1e308}, {"stddev", -1}}),
        Variable("random_normal", {4}, {{"stddev", 1e38}}),
        Variable("truncated_normal", {4}, {{"stddev", -3e38}}),
        Variable("orthogonal", {2, 2}, {{"gain", 1e39}})}) {
    const absl::Status status = Initialize(variable, 1, 0, out);
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find("dense/kernel") != std::string::npos);
    CHECK(CheckInitializer(variable) == status);
  }
  CHECK(CheckInitializer(Variable("random_normal", {4}, {{"stddev", -1}})).ok());
}

}  // namespace
}  // namespace paracord
