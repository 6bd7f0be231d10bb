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
  CHECK(CheckOwnMemory(variables, {}, needed).ok());
  CHECK(CheckOwnMemory(variables, {}, needed - 1).message() ==
        "a copy of the model's variables and their gradients need 294.0 MiB, and --memory-limit is "
        "294.0 MiB");
  // A node's worker has a share of the process's memory.
  CHECK(CheckOwnMemory(variables, {.memory_parts = 2}, needed).ok());
  CHECK(CheckOwnMemory(variables, {.memory_parts = 2}, needed - 94 * kMiB).message() ==
        "a copy of the model's variables and their gradients need 294.0 MiB, and the worker's part "
        "of --memory-limit 400.0 MiB is 200.0 MiB: give 588.0 MiB");
  // An evaluator has no gradients.
  CHECK(CheckOwnMemory(variables, {.devices = 0}, needed - 100 * kMiB).ok());
  CHECK(CheckOwnMemory(variables, {.devices = 0}, needed - 100 * kMiB - 1).message() ==
        "a copy of the model's variables needs 194.0 MiB, and --memory-limit is 194.0 MiB");
  VariableSpec endless = variables[0];
  endless.set_shape(0, ~uint64_t{0});
  CHECK_FALSE(CheckOwnMemory(std::vector<VariableSpec>{endless}, {}, uint64_t{1} << 60).ok());
}

TEST_CASE(
    "each of several devices of a worker has gradients, a batch, and rows that are added up") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::vector<VariableSpec> variables = {Variable(100, true, TableSpec::KIND_UNSPECIFIED),
                                               Variable(1 << 20, true, TableSpec::GROWING)};
  OwnLoad load{.devices = 3, .batch_bytes = 5 * kMiB, .rows = {0, 4}};
  // A row of the table has a MiB, and an id of 8 bytes.
  const uint64_t rows = 4 * (kMiB + 8);
  const uint64_t needed = MemoryBudget::kProgramBytes + (4 * 100 + 3 * 5) * kMiB + 6 * rows;
  CHECK(CheckOwnMemory(variables, load, needed).ok());
  CHECK(
      CheckOwnMemory(variables, load, needed - 1).message() ==
      "a copy of the model's variables, and gradients and a batch on each of 3 devices need 503.0 "
      "MiB, and --memory-limit is 503.0 MiB");
  load.devices = 1;  // uses the feed's own batch, and sums nothing
  CHECK(CheckOwnMemory(variables, load, MemoryBudget::kProgramBytes + 200 * kMiB).ok());
  load = {.devices = 2, .batch_bytes = ~uint64_t{0}, .rows = {~uint64_t{0}, ~uint64_t{0}}};
  CHECK_FALSE(CheckOwnMemory(variables, load, uint64_t{1} << 60).ok());
}

TEST_CASE("a batch has the bytes of all its columns") {
  Batch schema;
  schema.inputs = {{.name = "x", .shape = {3, 4}, .values = {}},
                   {.name = "t", .shape = {2}, .values = {}, .text = true}};
  schema.targets = {{.name = "y", .shape = {}, .values = {}}};
  schema.weights = {{.name = "", .shape = {}, .values = {}}};
  CHECK(BatchBytes(schema, 10) == 10 * (12 * 4 + 2 * sizeof(std::string) + 4 + 4));
  schema.inputs[0].shape = {~uint64_t{0}, 2};
  CHECK(BatchBytes(schema, 10) == MemoryBudget::kUnlimited);
}

}  // namespace
}  // namespace paracord
