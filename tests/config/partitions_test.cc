// Tests which specs of variables are valid.
#include "config/partitions.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "config/limits.h"

namespace paracord {
namespace {

TEST_CASE("a constraint of a norm has axes of its variable and bounds that can be kept") {
  const auto refused = [](const std::function<void(VariableSpec&)>& edit) {
    std::vector<VariableSpec> variables(1);
    variables[0].set_name("dense/kernel");
    variables[0].add_shape(4);
    variables[0].add_shape(3);
    variables[0].set_dtype(FLOAT32);
    edit(variables[0]);
    return std::string(CheckVariables(variables).message());
  };
  const auto norm = [&](double least, double most, double rate, std::vector<uint32_t> axes) {
    return refused([&](VariableSpec& v) {
      v.set_constraint("norm");
      v.mutable_norm()->set_least(least);
      v.mutable_norm()->set_most(most);
      v.mutable_norm()->set_rate(rate);
      for (const uint32_t axis : axes) v.mutable_norm()->add_axes(axis);
    });
  };
  const std::string no_norm = "variable \"dense/kernel\" has a norm constraint that is not valid";
  CHECK(norm(0, 2, 1, {0, 1}) == "");
  CHECK(norm(0, 2, 1, {}) == no_norm);
  CHECK(norm(0, 2, 1, {2}) == no_norm);
  CHECK(norm(0, 2, 1, {1, 0}) == no_norm);
  CHECK(norm(0, 2, 1, {1, 1}) == no_norm);
  CHECK(norm(-1, 2, 1, {0}) == no_norm);
  CHECK(norm(3, 2, 1, {0}) == no_norm);
  CHECK(norm(0, std::numeric_limits<double>::infinity(), 1, {0}) == no_norm);
  CHECK(norm(0, 2, 1.5, {0}) == no_norm);
  CHECK(refused([](VariableSpec& v) { v.set_constraint("norm"); }) == no_norm);
  CHECK(refused([](VariableSpec& v) { v.mutable_norm()->add_axes(0); }) == no_norm);
}

TEST_CASE("a table has rows, and is of a kind that can be had") {
  VariableSpec variable;
  variable.set_name("v");
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_table()->set_kind(TableSpec::FIXED);
  const auto check = [&] {
    return std::string(CheckVariables(std::vector<VariableSpec>{variable}).message());
  };
  CHECK(check() == "variable \"v\" is a table, and has no rows");
  variable.add_shape(5);
  CHECK(check().empty());
  variable.mutable_table()->set_lazy(true);
  CHECK(check().empty());
  variable.set_constraint("norm");
  variable.mutable_norm()->set_most(1);
  variable.mutable_norm()->add_axes(0);
  CHECK(check() == "variable \"v\" is a lazy table, and its constraint is of a norm over all rows");
  variable.mutable_table()->set_kind(TableSpec::GROWING);
  CHECK(check() ==
        "variable \"v\" is a growing table, and its constraint is of a norm over all rows");
}

TEST_CASE("a growing table has settings that can be kept, and a slot for each partition") {
  VariableSpec good;
  good.set_name("v");
  good.set_dtype(FLOAT32);
  good.set_trainable(true);
  good.mutable_table()->set_kind(TableSpec::GROWING);
  good.add_shape(16);
  good.add_shape(4);
  const auto refused = [&](const std::function<void(VariableSpec&)>& edit) {
    VariableSpec variable = good;
    edit(variable);
    return !CheckVariables(std::vector<VariableSpec>{variable}).ok();
  };
  CHECK_FALSE(refused([](VariableSpec&) {}));
  CHECK(refused([](VariableSpec& v) { v.set_shape(0, 4097); }));
  CHECK(refused([](VariableSpec& v) { v.set_trainable(false); }));
  CHECK(refused([](VariableSpec& v) { v.mutable_table()->set_admit_after(256); }));
  CHECK(refused([](VariableSpec& v) { v.mutable_table()->set_admit_probability(-0.5); }));
  CHECK(refused([](VariableSpec& v) {
    v.mutable_table()->set_admit_probability(std::numeric_limits<double>::quiet_NaN());
  }));
  CHECK(refused([](VariableSpec& v) { v.mutable_table()->set_expire_batches(uint64_t{1} << 31); }));
  PartitionSpec slot;
  slot.set_name("v/part_3");
  slot.set_row_begin(3);
  slot.set_row_end(4);
  const std::vector<VariableSpec> variables = {good};
  CHECK(CheckPartition(variables, slot).ok());
  slot.set_row_end(5);
  CHECK_FALSE(CheckPartition(variables, slot).ok());
}

TEST_CASE("a job has at most so many variables") {
  std::vector<VariableSpec> variables(kVariablesMax);
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i].set_name("v" + std::to_string(i));
    variables[i].set_dtype(FLOAT32);
  }
  CHECK(CheckVariables(variables).ok());
  variables.push_back(variables[0]);
  CHECK(CheckVariables(variables).message() ==
        "there are 65537 variables, and at most 65536 are supported");
}

}  // namespace
}  // namespace paracord
