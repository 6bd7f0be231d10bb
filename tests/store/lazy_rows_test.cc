// Lazy tables: updates of some rows, each with a step count.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "store/dense_partition.h"
#include "tests/floats.h"
#include "tests/store/fixed_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kRows = 2000;
constexpr uint64_t kRowDim = 150;
constexpr uint32_t kBatches = 40;

std::unique_ptr<TablePartition> Make(const Optimizer& optimizer, uint64_t rows, float value) {
  return MakeFixedRows(optimizer, {rows, kRowDim}, value);
}

Floats ValuesOf(const TablePartition& partition, uint64_t row) {
  Floats values(kRowDim);
  partition.PullRows(std::vector<uint64_t>{row}, values);
  return values;
}

// Returns a dense variable with the shape of a row.
std::unique_ptr<DensePartition> MakeDense(const Optimizer& optimizer, uint64_t elements,
                                          float value) {
  Partition::Facts facts{.id = 0,
                         .name = "v",
                         .shape = {1, elements},
                         .trained = true,
                         .bytes = elements * sizeof(float)};
  PartitionContents contents{.value = Block(elements), .slots = {}, .ledger = {}};
  contents.value.Fill(value);
  FillSlots(optimizer, contents);
  return std::make_unique<DensePartition>(std::move(facts), optimizer, std::move(contents));
}

Floats ValuesOf(const DensePartition& partition) {
  const std::span<const float> values = partition.TakeImage().value[0].values();
  return {values.begin(), values.end()};
}

float GradientOf(uint32_t batch, uint64_t row, uint64_t i) {
  return static_cast<float>((batch * 7919 + row * 31 + i * 17) % 200) / 50.0f - 1.9f;
}

const RowIds kPushed = {0, 3, 4, 1747, 1999};
bool Has(uint32_t batch, uint64_t row) { return (batch + row) % (row % 5 + 1) == 0; }

Floats RowGradient(uint32_t batch, uint64_t row) {
  Floats gradient(kRowDim);
  for (uint64_t i = 0; i < kRowDim; ++i) gradient[i] = GradientOf(batch, row, i);
  return gradient;
}

// Pushes the rows of every batch.
void PushAll(TablePartition& partition) {
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    PartitionUpdate update;
    update.rows.emplace();
    Floats gradient;
    for (const uint64_t row : kPushed) {
      if (!Has(batch, row)) continue;
      update.rows->push_back(row);
      const Floats own = RowGradient(batch, row);
      gradient.insert(gradient.end(), own.begin(), own.end());
    }
    if (!gradient.empty()) update.gradient = Gradient(CordOf(gradient));
    REQUIRE(partition.Push({0, batch, 1000}, false, update, {}).outcome == PUSH_APPLIED);
  }
}

Optimizer Lazy(const NamedSpec& spec, const std::function<void(VariableSpec&)>& change = {}) {
  VariableSpec variable;
  variable.set_name("v");
  variable.mutable_table()->set_kind(TableSpec::FIXED);
  variable.mutable_table()->set_lazy(true);
  if (change) change(variable);
  return OptimizerFor(variable, ParseOptimizer(spec).value());
}

TEST_CASE("a row of a lazy table is what it were as a variable of its own") {
  const NamedSpec spec =
      GENERATE(NamedSpec{"sgd"}, NamedSpec{"sgd", {{"momentum", 0.9}, {"nesterov", true}}},
               NamedSpec{"adagrad"}, NamedSpec{"adadelta"},
               NamedSpec{"rmsprop", {{"momentum", 0.5}, {"centered", true}, {"use_ema", true}}},
               NamedSpec{"adam", {{"amsgrad", true}}}, NamedSpec{"adamw"}, NamedSpec{"adamax"},
               NamedSpec{"nadam"}, NamedSpec{"lion"}, NamedSpec{"ftrl", {{"beta", 0.1}}},
               NamedSpec{"adam", {{"use_ema", true}, {"ema_overwrite_frequency", 3}}});
  const int constraint = GENERATE(0, 1, 2);
  INFO(spec.name << " " << spec.options << " " << constraint);
  const Optimizer lazy = Lazy(spec, [&](VariableSpec& variable) {
    if (constraint == 1) variable.set_constraint("non_neg");
    if (constraint != 2) return;
    variable.set_constraint("norm");
    variable.mutable_norm()->set_most(2);
    variable.mutable_norm()->set_rate(1);
    variable.mutable_norm()->add_axes(1);
  });
  const auto table = Make(lazy, kRows, 0.5f);
  PushAll(*table);
  Optimizer plain = lazy;
  plain.lazy = false;
  for (const uint64_t row : kPushed) {
    const auto alone = MakeDense(plain, kRowDim, 0.5f);
    uint32_t steps = 0;
    for (uint32_t batch = 0; batch < kBatches; ++batch) {
      if (!Has(batch, row)) continue;
      alone->Push({0, steps++, 1000}, false, Gradient(CordOf(RowGradient(batch, row))));
    }
    REQUIRE(steps > 0);
    CHECK((ValuesOf(*table, row) == ValuesOf(*alone)));
    CHECK(TensorOf(*table, "v/.slot/steps")[row] == static_cast<float>(steps));
  }
  CHECK((ValuesOf(*table, 1) == Floats(kRowDim, 0.5f)));
  CHECK(table->GetCounts().healthy);
}

// Expected values: Adam with decoupled decay and a schedule, in double, by the formula in
// docs/optimizers.md.
TEST_CASE("lazy Adam counts a row's own steps, and a schedule counts batches") {
  const Optimizer lazy = Lazy({"adam",
                               {{"learning_rate",
                                 {{"name", "exponential_decay"},
                                  {"initial_learning_rate", 0.01},
                                  {"decay_steps", 10},
                                  {"decay_rate", 0.5}}},
                                {"weight_decay", 0.1},
                                {"epsilon", 1e-4}}});
  const auto table = Make(lazy, kRows, 0.5f);
  PushAll(*table);
  for (const uint64_t row : kPushed) {
    const Floats values = ValuesOf(*table, row);
    for (uint64_t i = 0; i < kRowDim; i += 29) {
      double value = 0.5, m = 0, v = 0;
      int t = 0;
      for (uint32_t batch = 0; batch < kBatches; ++batch) {
        if (!Has(batch, row)) continue;
        ++t;
        const double g = static_cast<double>(GradientOf(batch, row, i));
        const double rate = 0.01 * std::pow(0.5, batch / 10.0);
        value -= rate * 0.1 * value;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        value -= rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m /
                 (std::sqrt(v) + 1e-4);
      }
      CHECK(static_cast<double>(values[i]) == Approx(value).margin(1e-5));
    }
  }
}

TEST_CASE("a dense gradient of a lazy table is one of all its rows") {
  const Optimizer lazy = Lazy({"adam"});
  const auto table = Make(lazy, 3, 0.5f);
  const Floats whole(3 * kRowDim, 0.25f);
  table->Push({0, 0, 1000}, false, PartitionUpdate{Gradient(CordOf(whole)), {}}, {});
  const auto other = Make(lazy, 3, 0.5f);
  other->Push({0, 0, 1000}, false, PartitionUpdate{Gradient(CordOf(whole)), RowIds{0, 1, 2}}, {});
  for (uint64_t row = 0; row < 3; ++row) {
    CHECK((ValuesOf(*table, row) == ValuesOf(*other, row)));
    CHECK((ValuesOf(*table, row) != Floats(kRowDim, 0.5f)));
  }
}

}  // namespace
}  // namespace paracord
