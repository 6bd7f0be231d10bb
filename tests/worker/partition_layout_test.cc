// Which ps hold which rows, as a worker sees it.
#include "worker/partition_layout.h"

#include <catch2/catch.hpp>
#include <memory>

#include "tests/worker/copied_session.h"

namespace paracord {
namespace {

// A matrix of four rows of 100 elements, a scalar, and a table of ten rows of two elements.
struct Layout : CopiedSession {
  Layout() {
    variables.resize(3);
    for (const uint64_t axis : {4, 100}) variables[0].add_shape(axis);
    for (const uint64_t axis : {10, 2}) variables[2].add_shape(axis);
    for (VariableSpec& variable : variables) variable.set_trainable(true);
    variables[2].mutable_table()->set_kind(TableSpec::FIXED);
  }
  PartitionLayout Make() const { return PartitionLayout(session, variables); }
};

bool IsRange(const ElementRange& range, uint64_t first, uint64_t elements) {
  return range.first == first && range.elements == elements;
}

TEST_CASE("a partition's range in its variable's array is that of its rows") {
  Layout test;
  test.Add(0, 1, 4, 1);
  test.Add(1, 0, 1, 0);
  const PartitionLayout layout = test.Make();
  CHECK(IsRange(layout.Find(1, 0)->RangeIn(nullptr), 100, 300));
  CHECK(IsRange(layout.Find(0, 1)->RangeIn(nullptr), 0, 1));
  CHECK(layout.Find(0, 0) == nullptr);
  CHECK(layout.Find(1, 7) == nullptr);
  CHECK(ArrayElements(test.variables[0]) == 400);
  CHECK(ArrayElements(test.variables[1]) == 1);
  REQUIRE(layout.of_variable(0).size() == 1);
  CHECK(layout.of_variable(2).empty());
}

TEST_CASE("a table's partition has the ids of its rows, and their range in an array of all ids") {
  Layout test;
  test.Add(2, 0, 6, 0);
  test.Add(2, 6, 10, 1);
  const PartitionLayout layout = test.Make();
  TableRows rows;
  rows.ids = {{}, {}, {1, 6, 9}};
  const auto ids = layout.Find(1, 1)->IdsIn(&rows);
  CHECK(std::vector<uint64_t>(ids.begin(), ids.end()) == std::vector<uint64_t>{6, 9});
  CHECK(IsRange(layout.Find(0, 0)->RangeIn(&rows), 0, 2));
  CHECK(IsRange(layout.Find(1, 1)->RangeIn(&rows), 2, 4));
  CHECK(IsRange(layout.Find(1, 1)->RangeIn(nullptr), 0, 0));
  rows.ids[2] = {1};
  CHECK(IsRange(layout.Find(1, 1)->RangeIn(&rows), 0, 0));
}

TEST_CASE("a growing table's ids are found by their shards, whatever the ids are") {
  Layout test;
  test.variables[2].set_shape(0, 2);
  test.variables[2].mutable_table()->set_kind(TableSpec::GROWING);
  test.Add(2, 0, 1, 0);
  test.Add(2, 1, 2, 1);
  const PartitionLayout layout = test.Make();
  TableRows rows;
  rows.ids = {{}, {}, {70, 5, 900}};
  rows.shards = {{}, {}, {0, 1, 3}};
  CHECK(IsRange(layout.Find(0, 0)->RangeIn(&rows), 0, 2));
  CHECK(IsRange(layout.Find(1, 1)->RangeIn(&rows), 2, 4));
  CHECK(layout.Find(1, 1)->IdsIn(&rows).front() == 5);
}

TEST_CASE("all holders of a partition share its index, and variables list first holders alone") {
  Layout test;
  test.Add(0, 0, 4, 0);
  test.Add(1, 0, 1, 1);
  test.session.mutable_partitions(0)->add_copies(1);
  const PartitionLayout layout = test.Make();
  CHECK(layout.has_copies());
  CHECK(layout.partitions() == 2);
  REQUIRE(layout.of_ps(1).size() == 2);
  CHECK(layout.Find(1, 0)->further_holder);
  CHECK_FALSE(layout.Find(0, 0)->further_holder);
  CHECK(layout.Find(1, 0)->index == layout.Find(0, 0)->index);
  CHECK(layout.Find(1, 1)->index != layout.Find(0, 0)->index);
  REQUIRE(layout.of_variable(0).size() == 1);
  CHECK_FALSE(layout.of_variable(0)[0].further_holder);
}

TEST_CASE("partitions and holders that fit neither variables nor ps are left out") {
  Layout test;
  test.Add(0, 3, 5, 1);  // the variable has four rows
  test.Add(0, 3, 2, 1);
  test.Add(3, 0, 1, 1);
  test.Add(1, 0, 1, 2);
  test.Add(1, 0, 1, 0);
  for (const uint32_t ps : {0u, 7u, 1u, 1u}) test.session.mutable_partitions(4)->add_copies(ps);
  const PartitionLayout layout = test.Make();
  CHECK(layout.of_ps(0).size() == 1);
  REQUIRE(layout.of_ps(1).size() == 1);
  CHECK(layout.of_ps(1)[0].id == 4);
}

TEST_CASE("a ps without partitions takes part if it is known and partitions have one holder") {
  Layout test;
  test.Add(0, 0, 4, 0);
  CHECK(test.Make().TakesPart(0));
  CHECK(test.Make().TakesPart(1));
  test.session.mutable_ps(1)->clear_boot_id();
  CHECK_FALSE(test.Make().TakesPart(1));
  test.session.mutable_ps(1)->set_boot_id("b");
  test.session.add_ps()->set_boot_id("c");
  test.session.mutable_partitions(0)->add_copies(1);
  CHECK(test.Make().TakesPart(1));
  CHECK_FALSE(test.Make().TakesPart(2));
}

}  // namespace
}  // namespace paracord
