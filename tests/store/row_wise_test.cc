// Row-wise optimizers keep one number per row for the squares of gradients. Compares them with the
// formulas of docs/optimizers.md in double.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "absl/strings/match.h"
#include "store/growing_table.h"
#include "tests/store/fixed_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kWiseDim = 150;  // rows lie across the ends of chunks
constexpr uint64_t kWiseRows = 2000;
constexpr uint32_t kWiseBatches = 30;
const RowIds kWiseIds = {0, 3, 1747, 1999};  // row 1747 lies in two chunks

float WiseGradient(uint32_t batch, uint64_t row, uint64_t i) {
  return static_cast<float>((batch * 7919 + row * 31 + i * 17) % 200) / 50.0f - 1.9f;
}

Optimizer RowWise(const char* name, bool amsgrad, TableSpec::Kind kind) {
  nlohmann::json options = {
      {"name", name}, {"learning_rate", 0.05}, {"row_wise", true}, {"clipvalue", 1.5}};
  if (amsgrad) options["amsgrad"] = true;
  VariableSpec variable;
  variable.set_name("v");
  variable.mutable_table()->set_kind(kind);
  variable.mutable_table()->set_lazy(true);
  variable.mutable_table()->set_optimizer(options.dump());
  REQUIRE(CheckOwnOptimizers(std::vector{variable}).ok());
  return OptimizerFor(variable, ParseOptimizer({"lion"}).value());
}

// The formulas for one row, in double.
struct WiseOracle {
  explicit WiseOracle(const Optimizer& of) : optimizer(of) {}
  void Step(uint32_t batch, uint64_t row) {
    double square = 0;
    std::vector<double> g(kWiseDim);
    for (uint64_t i = 0; i < kWiseDim; ++i) {
      g[i] = std::clamp(static_cast<double>(WiseGradient(batch, row, i)), -1.5, 1.5);
      square += g[i] * g[i] / kWiseDim;
    }
    ++t;
    const bool adagrad = optimizer.rule == Optimizer::Rule::kAdagrad;
    second = adagrad ? second + square : 0.999 * second + 0.001 * square;
    largest = std::max(largest, second);
    for (uint64_t i = 0; i < kWiseDim; ++i) {
      values[i] -= 0.05 * optimizer.weight_decay.value_or(0) * values[i];
      if (adagrad) {
        values[i] -= 0.05 * g[i] / std::sqrt(second + 1e-7);
        continue;
      }
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      const double rate = 0.05 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
      values[i] -= rate * m[i] / (std::sqrt(optimizer.amsgrad ? largest : second) + 1e-7);
    }
  }
  void Check(const std::vector<float>& row) const {
    for (uint64_t i = 0; i < kWiseDim; ++i) {
      CHECK(static_cast<double>(row[i]) == Approx(values[i]).margin(2e-5));
    }
  }

  const Optimizer& optimizer;
  int t = 0;
  double second = optimizer.rule == Optimizer::Rule::kAdagrad ? static_cast<double>(0.1f) : 0;
  double largest = 0;
  std::vector<double> m = std::vector<double>(kWiseDim, 0),
                      values = std::vector<double>(kWiseDim, 0);
};

bool WiseHas(uint32_t batch, uint64_t row) { return (batch + row) % (row % 4 + 1) == 0; }

std::vector<float> WiseBatch(uint32_t batch, RowIds& ids) {
  std::vector<float> gradient;
  for (const uint64_t row : kWiseIds) {
    if (!WiseHas(batch, row)) continue;
    ids.push_back(row);
    for (uint64_t i = 0; i < kWiseDim; ++i) gradient.push_back(WiseGradient(batch, row, i));
  }
  return gradient;
}

TEST_CASE("row-wise rules are those of docs/optimizers.md, in a growing table and in a lazy one") {
  const std::string name = GENERATE("adagrad", "adam", "adamw", "amsgrad");
  INFO(name);
  const bool amsgrad = name == "amsgrad";
  const char* const rule = amsgrad ? "adam" : name.c_str();
  const Optimizer grown = RowWise(rule, amsgrad, TableSpec::GROWING);
  CHECK(RowNumbers(grown, kWiseDim) == kWiseDim * (name == "adagrad" ? 1 : 2) + (amsgrad ? 2 : 1));
  GrowingTableOptions options;
  options.variable.set_name("v");
  options.variable.add_shape(1);
  options.variable.add_shape(kWiseDim);
  options.variable.mutable_initializer()->set_name("zeros");
  options.optimizer = grown;
  const auto table = GrowingTable::Make(options).value();

  const Optimizer lazy = RowWise(rule, amsgrad, TableSpec::FIXED);
  const auto partition = MakeFixedRows(lazy, {kWiseRows, kWiseDim}, 0);

  std::vector<WiseOracle> oracles(kWiseIds.size(), WiseOracle(grown));
  for (uint32_t batch = 0; batch < kWiseBatches; ++batch) {
    PartitionUpdate update;
    update.rows.emplace();
    const std::vector<float> gradient = WiseBatch(batch, *update.rows);
    for (size_t r = 0; r < kWiseIds.size(); ++r) {
      if (WiseHas(batch, kWiseIds[r])) oracles[r].Step(batch, kWiseIds[r]);
    }
    REQUIRE(table->Update(batch, *update.rows, gradient));
    if (!gradient.empty()) {
      update.gradient = Gradient(absl::Cord(absl::string_view(
          reinterpret_cast<const char*>(gradient.data()), gradient.size() * sizeof(float))));
    }
    REQUIRE(partition->Push({0, batch, 1000}, false, update, {}).outcome == PUSH_APPLIED);
  }
  CHECK(partition->GetCounts().healthy);
  for (size_t r = 0; r < kWiseIds.size(); ++r) {
    const std::vector<uint64_t> id = {kWiseIds[r]};
    std::vector<float> row(kWiseDim), other(kWiseDim);
    table->Lookup(id, row);
    oracles[r].Check(row);
    partition->PullRows(id, other);
    CHECK(row == other);
  }
}

TEST_CASE("a row-wise gradient that overflows is seen") {
  GrowingTableOptions options;
  options.variable.set_name("v");
  options.variable.add_shape(1);
  options.variable.add_shape(2);
  options.variable.mutable_initializer()->set_name("zeros");
  options.optimizer =
      ParseTableOptimizer({"adagrad", {{"row_wise", true}}}, "tables.v.optimizer").value();
  const auto table = GrowingTable::Make(options).value();
  CHECK(table->Update(0, std::vector<uint64_t>{1}, std::vector<float>{1, 2}));
  CHECK(!table->Update(1, std::vector<uint64_t>{1}, std::vector<float>{3e38f, 0}));
}

TEST_CASE("what a table's own optimizer cannot be is refused by name") {
  const auto why = [](const NamedSpec& spec) {
    return std::string(ParseTableOptimizer(spec, "tables.user.optimizer").status().message());
  };
  CHECK(why({"sgd", {{"row_wise", true}}}) ==
        "tables.user.optimizer.row_wise: is for adagrad, adam and adamw; sgd has no such form");
  CHECK(absl::StrContains(why({"rmsprop", {{"row_wise", true}}}), "rmsprop has no such form"));
  CHECK(why({"adam", {{"clipnorm", 1.0}}}).starts_with("tables.user.optimizer.clipnorm: "));
  CHECK(why({"adam", {{"row_wise", 1}}}).starts_with("tables.user.optimizer.row_wise: must be"));
  CHECK(why({"nonsense"})
            .starts_with("tables.user.optimizer.name: is \"nonsense\", but there is only: "));
  CHECK(why({"sgd", {{"row_wise", false}}}).empty());
  CHECK(absl::StrContains(ParseOptimizer({"adam", {{"row_wise", true}}}).status().message(),
                          "is for the optimizer of a table"));
  VariableSpec variable;
  variable.set_name("user/embeddings");
  variable.mutable_table()->set_kind(TableSpec::FIXED);
  for (const char* const text :
       {"{", "7", R"({"name":"adam","row_wise":true})", R"({"name":"adam","beta_1":2})"}) {
    variable.mutable_table()->set_optimizer(text);
    const absl::Status status = CheckOwnOptimizers(std::vector{variable});
    INFO(text << ": " << status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(), "user/embeddings"));
  }
}

}  // namespace
}  // namespace paracord
