// The rows of tables in a worker's copy, and their transport.
#include <catch2/catch.hpp>
#include <cstring>

#include "config/partitions.h"
#include "exchange/codec.h"
#include "exchange/rows.h"
#include "tests/parts.h"
#include "tests/worker/copied_session.h"

namespace paracord {
namespace {

// A table of ten rows of two elements on two ps, and a bias on the first.
struct TableCopy : CopiedSession {
  TableCopy() {
    VariableSpec& table = variables.emplace_back();
    table.add_shape(10);
    table.add_shape(2);
    table.set_trainable(true);
    table.mutable_table()->set_kind(TableSpec::FIXED);
    VariableSpec& bias = variables.emplace_back();
    bias.add_shape(1);
    bias.set_trainable(true);
    Add(0, 0, 6, 0);
    Add(0, 6, 10, 1);
    Add(1, 0, 1, 0);
  }
};

SharedRows Rows(std::vector<uint64_t> ids) {
  const auto rows = std::make_shared<TableRows>();
  rows->ids = {std::move(ids), {}};
  return rows;
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

absl::Cord Reply(const std::vector<std::pair<uint32_t, std::vector<float>>>& partitions) {
  ExchangeReply reply;
  std::vector<PieceView> pieces;
  for (const auto& [id, values] : partitions) {
    PartitionState& state = *reply.add_partitions();
    state.set_partition(id);
    state.set_bytes(values.size() * sizeof(float));
    state.set_updates(3);
    if (!values.empty()) pieces.push_back({id, 0, absl::Cord(BytesOf(values))});
  }
  return Joined(EncodeExchange(reply, std::move(pieces)));
}

TEST_CASE(
    "the gradient's rows are pushed and the next batch's are pulled, by "
    "partition") {
  TableCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables);
  CHECK(copy.values()[0].empty());  // a table has no row before a request
  copy.gradients().Prepare(0, Rows({1, 7, 9}));
  REQUIRE(copy.gradients().arrays(0)[0].size() == 6);
  for (size_t i = 0; i < 6; ++i) copy.gradients().arrays(0)[0][i] = static_cast<float>(i);
  copy.gradients().arrays(0)[1][0] = 8;
  ExchangeOrder order{.batch = BatchId()};
  order.rows = {Rows({0, 5, 6})};
  order.incoming = copy.Expect(order.rows);

  const SentRequest first = Sent(copy, 0, order);
  REQUIRE(first.header.push_size() == 2);
  CHECK(first.Rows(first.header.push(0)) == RowIds{1});
  CHECK(first.header.push(0).bytes() == 8);
  CHECK(first.bytes.at(0) == BytesOf({0, 1}));
  CHECK_FALSE(first.header.push(1).has_rows());
  CHECK(first.bytes.at(2) == BytesOf({8}));
  CHECK(first.Rows(first.header.pull(0)) == RowIds{0, 5});
  const SentRequest second = Sent(copy, 1, order);
  CHECK(second.Rows(second.header.push(0)) == RowIds{7, 9});
  CHECK(second.bytes.at(1) == BytesOf({2, 3, 4, 5}));
  CHECK(second.Rows(second.header.pull(0)) == RowIds{6});

  float* const place = reinterpret_cast<float*>(PlaceOf(copy, 1, order, 1, 4, 4));
  REQUIRE(place != nullptr);
  CHECK(PlaceOf(copy, 1, order, 1, 4, 8) == nullptr);  // beyond the rows
  REQUIRE(copy.TakeReply(0, order, false, Reply({{0, {10, 11, 50, 51}}, {2, {9}}})).ok());
  REQUIRE(copy.TakeReply(1, order, false, Reply({{1, {60, 61}}})).ok());
  CHECK(*place == 61);
  CHECK(copy.values()[0].empty());  // until the exchange has ended
  copy.TakeRows(order.incoming);
  const auto values = copy.values()[0];
  CHECK(std::vector<float>(values.begin(), values.end()) ==
        std::vector<float>{10, 11, 50, 51, 60, 61});
}

TEST_CASE("partitions without a row of the batch are pushed all the same") {
  TableCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables,
                     {.wire = ENCODING_BF16, .compression = {}});
  copy.gradients().Prepare(0, Rows({2}));
  std::ranges::fill(copy.gradients().arrays(0)[0], 1.f);
  REQUIRE((copy.gradients().Encode(0, 0) && copy.gradients().Encode(0, 1)));
  ExchangeOrder order{.batch = BatchId()};
  order.incoming = copy.Expect({});
  const SentRequest first = Sent(copy, 0, order);
  CHECK(first.header.push(0).encoding() == ENCODING_BF16);
  CHECK(first.bytes.at(0) == std::string("\x80\x3f\x80\x3f", 4));
  CHECK(first.header.pull(0).has_rows());
  CHECK(first.header.pull(0).rows().count() == 0);
  const SentRequest second = Sent(copy, 1, order);
  REQUIRE(second.header.push_size() == 1);
  CHECK(second.header.push(0).has_rows());
  CHECK(second.header.push(0).bytes() == 0);
  CHECK(second.bytes.empty());
  order.rejected = true;
  CHECK_FALSE(Sent(copy, 0, order).header.push(0).has_rows());
}

TEST_CASE("a reply has all rows that were asked for, and no others") {
  TableCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables);
  ExchangeOrder order;
  order.rows = {Rows({6, 8})};
  order.incoming = copy.Expect(order.rows);
  for (const std::vector<float>& values :
       {std::vector<float>{}, std::vector<float>{1, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}}) {
    CHECK(absl::IsInternal(copy.TakeReply(1, order, false, Reply({{1, values}})).status()));
  }
  CHECK(copy.TakeReply(1, order, false, Reply({{1, {1, 2, 3, 4}}})).ok());
}

TEST_CASE("rows of two batches come as one, and each batch finds its own") {
  const SharedRows a = Rows({1, 4, 9}), b = Rows({0, 4, 5});
  const SharedRows both = RowsOfAll(std::vector<SharedRows>{a, b});
  CHECK(both->ids[0] == std::vector<uint64_t>{0, 1, 4, 5, 9});
  CHECK(RowsOfAll(std::vector<SharedRows>{a}) == a);
  CHECK(RowsOfAll({}) == nullptr);
  std::vector<float> own;
  GatherRows(both->ids[0], std::vector<float>{0, 0.5f, 1, 1.5f, 4, 4.5f, 5, 5.5f, 9, 9.5f},
             b->ids[0], own);
  CHECK(own == std::vector<float>{0, 0.5f, 4, 4.5f, 5, 5.5f});
}

TEST_CASE("the rows of a growing table are pushed and pulled shard by shard") {
  TableCopy fixture;
  fixture.variables[0].set_shape(0, 2);
  fixture.variables[0].mutable_table()->set_kind(TableSpec::GROWING);
  fixture.session.clear_partitions();
  fixture.Add(0, 0, 1, 0);
  fixture.Add(0, 1, 2, 1);
  fixture.Add(1, 0, 1, 0);
  // Each shard has some ids, whichever they are.
  std::vector<RowIds> ids(2);
  for (uint64_t id = 0; ids[0].size() < 3 || ids[1].size() < 3; ++id) {
    ids[ShardOfRow(id, 2)].push_back(id);
  }
  const auto rows = [&](const RowIds& first, const RowIds& second) {
    const auto some = std::make_shared<TableRows>();
    some->ids = {first, {}};
    some->ids[0].insert(some->ids[0].end(), second.begin(), second.end());
    const auto middle = static_cast<uint32_t>(first.size());
    some->shards = {{0, middle, middle + static_cast<uint32_t>(second.size())}, {}};
    return SharedRows(some);
  };
  ParameterCopy copy(fixture.session, fixture.variables);
  copy.gradients().Prepare(0, rows({ids[0][1]}, {ids[1][0], ids[1][2]}));
  REQUIRE(copy.gradients().arrays(0)[0].size() == 6);
  for (size_t i = 0; i < 6; ++i) copy.gradients().arrays(0)[0][i] = static_cast<float>(i);
  ExchangeOrder order{.batch = BatchId()};
  // The rows of two batches are pulled together.
  order.rows = {rows({ids[0][2]}, {ids[1][1]}), rows({ids[0][0], ids[0][2]}, {ids[1][0]})};
  order.incoming = copy.Expect(order.rows);
  const SentRequest first = Sent(copy, 0, order);
  CHECK(first.Rows(first.header.push(0)) == RowIds{ids[0][1]});
  CHECK(first.bytes.at(0) == BytesOf({0, 1}));
  CHECK(first.Rows(first.header.pull(0)) == RowIds{ids[0][0], ids[0][2]});
  const SentRequest second = Sent(copy, 1, order);
  CHECK(second.Rows(second.header.push(0)) == RowIds{ids[1][0], ids[1][2]});
  CHECK(second.bytes.at(1) == BytesOf({2, 3, 4, 5}));
  CHECK(second.Rows(second.header.pull(0)) == RowIds{ids[1][0], ids[1][1]});
  REQUIRE(copy.TakeReply(0, order, false, Reply({{0, {1, 2, 3, 4}}, {2, {9}}})).ok());
  REQUIRE(copy.TakeReply(1, order, false, Reply({{1, {5, 6, 7, 8}}})).ok());
  copy.TakeRows(order.incoming);
  std::vector<float> gathered;
  GatherRows(copy.pulled()->rows->ids[0], copy.values()[0], order.rows[1]->ids[0], gathered);
  CHECK(gathered == std::vector<float>{1, 2, 3, 4, 5, 6});
}

}  // namespace
}  // namespace paracord
