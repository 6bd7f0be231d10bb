// TensorFlow's partitioning rules with TensorFlow's own test cases, and placement.
#include "coordinator/core/partitioner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "absl/strings/match.h"
#include "config/limits.h"
#include "coordinator/core/placement.h"

namespace paracord {
namespace {

using Kind = PartitionerSpec::Kind;

VariableSpec Variable(const std::string& name, const std::vector<uint64_t>& shape) {
  VariableSpec variable;
  variable.set_name(name);
  for (uint64_t length : shape) variable.add_shape(length);
  variable.set_trainable(true);
  return variable;
}

PartitionerSpec Fixed(uint64_t shards) {
  return {.kind = Kind::kFixedShards, .shards = shards, .max_shards = std::nullopt};
}
PartitionerSpec MinSize(uint64_t bytes, std::optional<uint64_t> max_shards) {
  return {.kind = Kind::kMinSize, .min_shard_bytes = bytes, .max_shards = max_shards};
}
PartitionerSpec MaxSize(uint64_t bytes, std::optional<uint64_t> max_shards = std::nullopt) {
  return {.kind = Kind::kMaxSize, .max_shard_bytes = bytes, .max_shards = max_shards};
}

using Rows = std::vector<uint64_t>;

Rows RowsOf(const std::vector<uint64_t>& shape, const PartitionerSpec& rule) {
  const std::vector<VariableSpec> variables = {Variable("v", shape)};
  absl::StatusOr<std::vector<PartitionSpec>> parts = PartitionVariables(variables, rule);
  REQUIRE(parts.ok());
  Rows rows;
  for (const PartitionSpec& part : *parts) rows.push_back(part.row_end() - part.row_begin());
  return rows;
}

TEST_CASE("the rules cut as TensorFlow's own tests say") {
  CHECK(RowsOf({10, 3}, Fixed(2)) == Rows{5, 5});
  CHECK(RowsOf({13}, Fixed(5)) == Rows{3, 3, 3, 2, 2});
  CHECK(RowsOf({10}, Fixed(4)) == Rows{3, 3, 2, 2});
  CHECK(RowsOf({5, 2}, Fixed(2)) == Rows{3, 2});
  CHECK(RowsOf({3}, Fixed(4)) == Rows{1, 1, 1});
  CHECK(RowsOf({32, 4}, Fixed(3)) == Rows{11, 11, 10});
  CHECK(RowsOf({6, 1}, MinSize(4, 2)).size() == 2);
  CHECK(RowsOf({6, 1}, MinSize(4, 10)).size() == 6);
  CHECK(RowsOf({6, 1}, MaxSize(4)).size() == 6);
  CHECK(RowsOf({6, 1}, MaxSize(4, 2)).size() == 2);
  CHECK(RowsOf({6, 1}, MaxSize(1024)).size() == 1);
}

TEST_CASE("a growing table has a partition for each slot, and each ps as many of them") {
  std::vector<VariableSpec> variables = {Variable("dense", {100, 100}), Variable("table", {6, 4})};
  variables[1].mutable_table()->set_kind(TableSpec::GROWING);
  auto parts = PartitionVariables(variables, Fixed(1));
  REQUIRE(parts.ok());
  REQUIRE(parts->size() == 7);
  const std::vector<uint64_t> bytes = PartitionBytes(variables, *parts);
  REQUIRE(PlacePartitions("greedy", 3, bytes, *parts).ok());
  std::vector<int> slots(3);
  for (size_t i = 1; i < parts->size(); ++i) {
    CHECK((*parts)[i].row_end() == (*parts)[i].row_begin() + 1);
    ++slots[(*parts)[i].ps()];
  }
  CHECK(slots == std::vector<int>{2, 2, 2});
}

TEST_CASE("a model without a trainable variable is refused before anything is created") {
  std::vector<VariableSpec> variables = {Variable("v", {4}), Variable("w", {4})};
  variables[0].set_trainable(false);
  CHECK(PartitionVariables(variables, Fixed(2)).ok());
  variables[1].set_trainable(false);
  const absl::Status status = PartitionVariables(variables, Fixed(2)).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) ==
        "there is nothing to train: none of the model's 2 variables is trainable");
  CHECK_FALSE(PartitionVariables({}, Fixed(2)).ok());
}

TEST_CASE("min_size may make parts smaller than its minimum, as TensorFlow's does") {
  const uint64_t rows = 300 * 1024 / 4;
  CHECK(RowsOf({rows}, MinSize(256 << 10, 2)) == Rows{rows / 2, rows / 2});
  CHECK(RowsOf({rows}, MinSize(256 << 10, 1)) == Rows{rows});
  CHECK(RowsOf({rows}, MinSize(300 << 10, 2)) == Rows{rows});
  CHECK(RowsOf({64, 1024}, MinSize(1, std::nullopt)).size() == 64);
}

TEST_CASE("max_size keeps parts below its limit unless a row is larger or max_shards is smaller") {
  CHECK(RowsOf({10, 2}, MaxSize(24)) == Rows{3, 3, 2, 2});
  CHECK(RowsOf({10, 2}, MaxSize(7)).size() == 10);
  CHECK(RowsOf({10, 2}, MaxSize(1, 3)) == Rows{4, 3, 3});
  CHECK(RowsOf({10, 2}, MaxSize(80)) == Rows{10});
  CHECK(RowsOf({10, 2}, MaxSize(79)) == Rows{5, 5});
}

TEST_CASE("a scalar is never cut") {
  for (const PartitionerSpec& rule : {Fixed(7), MinSize(1, 9), MaxSize(1)}) {
    CHECK(RowsOf({}, rule) == Rows{1});
  }
}

TEST_CASE(
    "partitions have consecutive ids, their variable's name and number, and contiguous rows") {
  const std::vector<VariableSpec> variables = {Variable("dense/kernel", {3, 2}),
                                               Variable("dense/bias", {2}), Variable("count", {})};
  absl::StatusOr<std::vector<PartitionSpec>> parts = PartitionVariables(variables, Fixed(2));
  REQUIRE(parts.ok());
  std::vector<std::string> names;
  for (const PartitionSpec& part : *parts) {
    CHECK(part.id() == names.size());
    names.push_back(part.name());
  }
  CHECK(names == std::vector<std::string>{"dense/kernel/part_0", "dense/kernel/part_1",
                                          "dense/bias/part_0", "dense/bias/part_1",
                                          "count/part_0"});
  CHECK((*parts)[1].row_begin() == 2);
  CHECK((*parts)[1].row_end() == 3);
  CHECK((*parts)[4].variable() == 2);
  CHECK(PartitionBytes(variables, *parts) == Rows{16, 8, 4, 4, 4});
}

TEST_CASE("the parts of any variable cover it once and differ by at most one row") {
  for (uint64_t rows = 1; rows < 40; ++rows) {
    for (uint64_t shards = 1; shards < 45; ++shards) {
      const Rows parts = RowsOf({rows, 2}, Fixed(shards));
      CHECK(std::accumulate(parts.begin(), parts.end(), uint64_t{0}) == rows);
      CHECK(parts.size() == std::min(rows, shards));
      CHECK(parts.front() - parts.back() <= 1);
      CHECK(std::is_sorted(parts.rbegin(), parts.rend()));
    }
  }
}

TEST_CASE("variables that cannot be partitioned are named") {
  auto problem = [](const std::vector<VariableSpec>& variables, const PartitionerSpec& rule) {
    return std::string(PartitionVariables(variables, rule).status().message());
  };
  CHECK(absl::StrContains(problem({Variable("a", {1}), Variable("a", {1})}, Fixed(1)), "name a"));
  CHECK(absl::StrContains(problem({Variable("", {1})}, Fixed(1)), "no name"));
  CHECK(absl::StrContains(problem({Variable("v", {3, 0})}, Fixed(1)), "v: axis 1"));
  const uint64_t large = uint64_t{1} << 63;
  CHECK(absl::StrContains(problem({Variable("v", {large})}, Fixed(1)), "v: is larger"));
  CHECK(absl::StrContains(problem({Variable("v", {2, large})}, Fixed(1)), "v: is larger"));
  CHECK(absl::StrContains(problem({Variable("v", {large, large, 4})}, Fixed(1)), "v: is larger"));
  CHECK(problem({Variable("v", {1 << 16})}, MinSize(1, std::nullopt)) == "");
  CHECK(absl::StrContains(problem({Variable("v", {(1 << 16) + 1})}, MinSize(1, std::nullopt)),
                          "v: partitioner asks for more than 65536 partitions"));
  CHECK(absl::StrContains(
      problem({Variable(std::string(300, 'n'), {1 << 16})}, MinSize(1, std::nullopt)),
      ": names of 65536 partitions do not fit a checkpoint"));
  // A character may take six bytes in JSON.
  CHECK(problem({Variable(std::string(190, 'n'), {30000})}, MinSize(1, std::nullopt)) == "");
  CHECK(absl::StrContains(
      problem({Variable(std::string(190, '\1'), {30000})}, MinSize(1, std::nullopt)),
      ": names of 30000 partitions do not fit a checkpoint"));
}

std::vector<uint32_t> Placed(const std::string& rule, uint32_t ps_count, const Rows& bytes) {
  std::vector<PartitionSpec> partitions(bytes.size());
  REQUIRE(PlacePartitions(rule, ps_count, bytes, partitions).ok());
  std::vector<uint32_t> ps;
  for (const PartitionSpec& partition : partitions) ps.push_back(partition.ps());
  return ps;
}

using PsOfEach = std::vector<uint32_t>;

TEST_CASE("a partition that no ps takes is refused, with what to write instead") {
  const auto refused = [](uint64_t rows, uint64_t columns, const PartitionerSpec& rule) {
    const VariableSpec variable = Variable("large", {rows, columns});
    return std::string(PartitionVariables({&variable, 1}, rule).status().message());
  };
  const uint64_t rows = uint64_t{1} << 20;
  PartitionerSpec rule;  // default: at most 8
  CHECK(refused(rows, 2048, rule) == "");
  const std::string what = refused(rows, 2049, rule);
  CHECK(what.starts_with("variable large: a partition has 1074266112 bytes, at most 1073741824"));
  CHECK(what.find("\"max_size\", \"max_shard_bytes\": 1073741824") != std::string::npos);
  rule = MaxSize(kPartitionBytesMax);
  CHECK(refused(rows, 2049, rule) == "");
  CHECK(refused(2, rows * 257, rule).ends_with("are possible"));  // a row cannot be cut
}

TEST_CASE("a norm over axis 0 needs one partition, and the error says what makes it possible") {
  std::vector<VariableSpec> variables = {Variable("d/kernel", {100, 10})};
  variables[0].set_constraint("norm");
  variables[0].mutable_norm()->add_axes(1);
  CHECK(PartitionVariables(variables, Fixed(4)).ok());  // a row lies in one partition
  variables[0].mutable_norm()->set_axes(0, 0);
  CHECK(PartitionVariables(variables, Fixed(1)).ok());
  const auto refused = PartitionVariables(variables, Fixed(4)).status();
  CHECK(
      refused.message() ==
      "variable d/kernel: its constraint is of a norm over axis 0, along which it is cut into 4 "
      "partitions; use {\"partitioner\": {\"kind\": \"min_size\", \"min_shard_bytes\": 4000}}, or "
      "another axis of the constraint");
  CHECK(PartitionVariables(variables, MinSize(4000, 8)).ok());
  CHECK_FALSE(PartitionVariables(variables, MinSize(3999, 8)).ok());
}

TEST_CASE("round robin ticks once a partition") {
  CHECK(Placed("round_robin", 2, {1, 100, 1, 1}) == PsOfEach{0, 1, 0, 1});
  CHECK(Placed("round_robin", 3, {1, 1, 1, 1}) == PsOfEach{0, 1, 2, 0});
}

TEST_CASE("greedy gives the largest first to the lightest ps, ties to the smaller index") {
  CHECK(Placed("greedy", 2, {1, 100, 60, 39, 2}) == PsOfEach{0, 0, 1, 1, 1});
  CHECK(Placed("greedy", 2, {5, 5, 5, 5}) == PsOfEach{0, 1, 0, 1});
  CHECK(Placed("greedy", 3, {}) == PsOfEach{});
  CHECK(Placed("greedy", 4, {7}) == PsOfEach{0});
}

TEST_CASE("greedy comes within a hundredth of perfect when partitions are many") {
  for (uint32_t ps_count = 1; ps_count <= 8; ++ps_count) {
    Rows bytes;
    for (uint64_t i = 0; i < 200; ++i) bytes.push_back(i * 7919 % 1009 + 1);
    std::vector<PartitionSpec> partitions(bytes.size());
    REQUIRE(PlacePartitions("greedy", ps_count, bytes, partitions).ok());
    CHECK(Imbalance(BytesOfPs(ps_count, bytes, partitions)) < 1.01);
  }
}

TEST_CASE("imbalance is the largest over the mean") {
  CHECK(Imbalance(Rows{30, 10}) == Approx(1.5));
  CHECK(Imbalance(Rows{10, 10}) == Approx(1));
  CHECK(Imbalance(Rows{0, 0}) == Approx(1));
  CHECK(Imbalance(Rows{}) == Approx(1));
}

TEST_CASE("no ps and unknown rules are refused") {
  std::vector<PartitionSpec> partitions(1);
  CHECK(!PlacePartitions("greedy", 0, Rows{1}, partitions).ok());
  CHECK(!PlacePartitions("magic", 1, Rows{1}, partitions).ok());
}

}  // namespace
}  // namespace paracord
