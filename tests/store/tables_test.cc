// A worker knows about an optimizer only what the job says, and a ps does the same.
#include "config/tables.h"

#include <catch2/catch.hpp>

#include "store/optimizer.h"

namespace paracord {
namespace {

TEST_CASE("rows may be pushed alone where a ps leaves the others as they are") {
  const auto [optimizer, leaves] = GENERATE(table<NamedSpec, bool>({
      {NamedSpec{"sgd"}, true},
      {NamedSpec{"sgd", {{"momentum", 0.0}, {"clipvalue", 1.0}}}, true},
      {NamedSpec{"sgd", {{"momentum", 0.9}}}, false},
      {NamedSpec{"sgd", {{"weight_decay", nullptr}, {"use_ema", false}}}, true},
      {NamedSpec{"sgd", {{"weight_decay", 0.01}}}, false},
      {NamedSpec{"adagrad"}, true},
      {NamedSpec{"adagrad", {{"learning_rate", 0.5}}}, true},
      {NamedSpec{"adagrad", {{"use_ema", true}}}, false},
      {NamedSpec{"adadelta"}, false},
      {NamedSpec{"rmsprop"}, false},
      {NamedSpec{"adam"}, false},
      {NamedSpec{"adamw"}, false},
      {NamedSpec{"adamax"}, false},
      {NamedSpec{"nadam"}, false},
      {NamedSpec{"ftrl"}, false},
      {NamedSpec{"lion"}, false},
  }));
  INFO(optimizer.name << " " << optimizer.options);
  VariableSpec variable;
  variable.set_name("v");
  const Optimizer parsed = ParseOptimizer(optimizer).value();
  CHECK(LeavesUntouchedAlone(optimizer, variable) == leaves);
  CHECK(ZeroGradientChangesNothing(OptimizerFor(variable, parsed)) == leaves);

  variable.set_constraint("non_neg");
  CHECK_FALSE(LeavesUntouchedAlone(optimizer, variable));
  CHECK_FALSE(ZeroGradientChangesNothing(OptimizerFor(variable, parsed)));
  variable.clear_constraint();
  variable.set_moving_average(0.9);
  CHECK_FALSE(LeavesUntouchedAlone(optimizer, variable));
  CHECK_FALSE(ZeroGradientChangesNothing(OptimizerFor(variable, parsed)));
}

}  // namespace
}  // namespace paracord
