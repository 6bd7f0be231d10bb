#include "worker/own_memory.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/memory_budget.h"

namespace paracord {
namespace {

VariableSpec Variable(uint64_t mib, bool trainable, TableSpec::Kind kind) {
  VariableSpec variable;
  variable.add_shape(mib);
  variable.add_shape(1 << 18);
  variable.set_trainable(trainable);
  if (kind != TableSpec::KIND_UNSPECIFIED) variable.mutable_table()->set_kind(kind);
  return variable;
}

TEST_CASE("a worker needs room for its copy of the variables and for their gradients") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::vector<VariableSpec> variables = {Variable(100, true, TableSpec::KIND_UNSPECIFIED),
                                               Variable(30, false, TableSpec::KIND_UNSPECIFIED),
                                               Variable(1 << 20, true, TableSpec::FIXED)};
  const uint64_t needed = MemoryBudget::kProgramBytes + 230 * kMiB;
  CHECK(CheckOwnMemory(variables, 1, needed).ok());
  CHECK(CheckOwnMemory(variables, 1, needed - 1).message() ==
        "a copy of the model's variables and their gradients need 294.0 MiB, and --memory-limit is "
        "294.0 MiB");
  // An evaluator has no gradients.
  CHECK(CheckOwnMemory(variables, 0, needed - 100 * kMiB).ok());
  CHECK(CheckOwnMemory(variables, 0, needed - 100 * kMiB - 1).message() ==
        "a copy of the model's variables needs 194.0 MiB, and --memory-limit is 194.0 MiB");
  // Each device has gradients of its own.
  CHECK(CheckOwnMemory(variables, 3, needed + 200 * kMiB).ok());
  CHECK(CheckOwnMemory(variables, 3, needed + 200 * kMiB - 1).message() ==
        "a copy of the model's variables and their gradients on 3 devices need 494.0 MiB, and "
        "--memory-limit is 494.0 MiB");
  VariableSpec endless = variables[0];
  endless.set_shape(0, ~uint64_t{0});
  CHECK_FALSE(CheckOwnMemory(std::vector<VariableSpec>{endless}, 1, uint64_t{1} << 60).ok());
}

}  // namespace
}  // namespace paracord
