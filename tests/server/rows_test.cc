// Pushes and pulls of single rows of a partition.
#include "exchange/rows.h"

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "common/half_float.h"
#include "exchange/encoding.h"
#include "store/partition_set.h"
#include "tests/server/ps_fixture.h"
#include "tests/store/fixed_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kRows = 5000;
constexpr uint64_t kDim = 150;  // chunks do not end at row boundaries

// A model with a table in three partitions, the second of which has rows [2000, 4500), and a
// vector.
TestModel TableModel(NamedSpec optimizer = {"sgd", {{"learning_rate", 0.5}}}) {
  TestModel model;
  model.job.optimizer = std::move(optimizer);
  model.variables = {TestVariable("table/embeddings", {kRows, kDim}),
                     TestVariable("dense/bias", {2}), TestVariable("scalar", {})};
  model.variables[0].mutable_initializer()->set_name("random_uniform");
  model.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
  model.partitions = {TestPartition(0, 0, "table/embeddings/part_0", 0, 2000),
                      TestPartition(1, 0, "table/embeddings/part_1", 2000, 4500),
                      TestPartition(2, 0, "table/embeddings/part_2", 4500, kRows),
                      TestPartition(3, 1, "dense/bias/part_0", 0, 2),
                      TestPartition(4, 2, "scalar/part_0", 0, 1)};
  return model;
}

absl::Cord EncodedCord(Encoding encoding, const Floats& values) {
  std::string bytes(values.size() * ElementBytes(encoding), '\0');
  EncodeDense(encoding, values, bytes.data());
  return absl::Cord(bytes);
}

// Returns a push without gradients.
DecodedRequest EmptyPush(TestPs& ps, uint32_t batch) {
  DecodedRequest request = ps.PushOf(0, batch, 0.0f);
  request.pieces.clear();
  for (PartitionPush& push : *request.header.mutable_push()) push.set_bytes(0);
  return request;
}

void SetGradient(DecodedRequest& request, uint32_t id, Encoding encoding, const Floats& values) {
  PartitionPush& push = *request.header.mutable_push(static_cast<int>(id));
  push.set_encoding(encoding);
  push.set_bytes(values.size() * ElementBytes(encoding));
  if (!values.empty()) request.pieces.push_back({id, 0, EncodedCord(encoding, values)});
}

void SetRows(DecodedRequest& request, uint32_t id, const RowIds& rows, const Floats& values,
             Encoding encoding = ENCODING_FLOAT32) {
  SetPushRows(request, *request.header.mutable_push(static_cast<int>(id)), rows);
  SetGradient(request, id, encoding, values);
}

RowIds RandomRows(SeededRandom& random, uint64_t begin, uint64_t end, int count) {
  std::set<uint64_t> rows;
  for (int i = 0; i < count; ++i) {
    rows.insert(static_cast<uint64_t>(
        random.Between(static_cast<int64_t>(begin), static_cast<int64_t>(end) - 1)));
  }
  return {rows.begin(), rows.end()};
}

Floats RandomFloats(SeededRandom& random, size_t count) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(random.Between(-999, 999)) / 256.0f;
  return values;
}

// Returns values and slots of all partitions.
std::vector<std::string> AllOf(TestPs& ps) {
  std::vector<std::string> all;
  for (const auto& partition : ps.ps->content()->partitions) {
    for (const auto& [name, bytes] : TensorsOf(*partition)) all.push_back(name + bytes);
    const Partition::Counts counts = partition->GetCounts();
    all.push_back(absl::StrCat(counts.updates, " ", counts.healthy, " ",
                               counts.ledger.ToProto(/*intervals=*/true).ShortDebugString()));
  }
  return all;
}

TEST_CASE("a push of rows does to the bit what a push with zeros elsewhere does") {
  const auto optimizer =
      GENERATE(NamedSpec{"sgd",
                         {{"learning_rate",
                           {{"name", "exponential_decay"},
                            {"initial_learning_rate", 0.1},
                            {"decay_steps", 2},
                            {"decay_rate", 0.9}}}}},
               NamedSpec{"adagrad", {{"learning_rate", 0.1}, {"clipvalue", 2.0}}});
  const Encoding encoding = GENERATE(ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16);
  INFO(optimizer.name << " " << encoding);
  TestPs dense(TableModel(optimizer));
  TestPs sparse(TableModel(optimizer));
  dense.Ready();
  sparse.Ready();
  SeededRandom random(7);
  for (uint32_t batch = 0; batch < 3; ++batch) {
    DecodedRequest all = EmptyPush(dense, batch);
    DecodedRequest some = EmptyPush(sparse, batch);
    for (uint32_t id = 0; id < 3; ++id) {
      const PartitionSpec& spec = dense.model.partitions[id];
      // Many rows, one row or none; then the last two rows, which are neighbours.
      RowIds rows;
      if ((id + batch) % 3 != 2) {
        rows = RandomRows(random, spec.row_begin(), spec.row_end(), id == batch ? 300 : 1);
      }
      if (id == batch) {
        for (const uint64_t row : {spec.row_end() - 2, spec.row_end() - 1}) {
          if (!std::ranges::binary_search(rows, row)) rows.push_back(row);
          std::ranges::sort(rows);
        }
      }
      const Floats values = RandomFloats(random, rows.size() * kDim);
      Floats whole(dense.model.Elements(id), 0.0f);
      for (size_t i = 0; i < rows.size(); ++i) {
        std::copy_n(values.begin() + static_cast<int64_t>(i * kDim), kDim,
                    whole.begin() + static_cast<int64_t>((rows[i] - spec.row_begin()) * kDim));
      }
      SetGradient(all, id, encoding, whole);
      SetRows(some, id, rows, values, encoding);
    }
    REQUIRE(dense.Exchange(all).ok());
    REQUIRE(sparse.Exchange(some).ok());
  }
  CHECK((AllOf(dense) == AllOf(sparse)));
}

TEST_CASE("a push of no rows is an update, and a rejected one is none") {
  TestPs ps(TableModel());
  ps.Ready();
  DecodedRequest none = EmptyPush(ps, 0);
  SetRows(none, 0, {}, {});
  const auto reply = ps.Exchange(none);
  REQUIRE(reply.ok());
  CHECK(reply->State(0).outcome() == PUSH_APPLIED);
  CHECK(reply->State(0).updates() == 1);
  CHECK(reply->State(1).updates() == 0);
  DecodedRequest rejected = EmptyPush(ps, 1);
  SetRows(rejected, 0, {}, {});
  rejected.header.set_rejected(true);
  const auto after = ps.Exchange(rejected);
  REQUIRE(after.ok());
  CHECK(after->State(0).updates() == 1);
  CHECK(ps.Describe().partitions(0).ledger().rejected() == 1);
  CHECK(ps.Describe().partitions(0).ledger().applied() == 1);
}

TEST_CASE("rows are applied exactly once") {
  TestPs ps(TableModel());
  ps.Ready();
  const auto push = [&](uint32_t batch) {
    DecodedRequest request = EmptyPush(ps, batch);
    SetRows(request, 1, {2000, 4499}, Floats(2 * kDim, 1.0f));
    return ps.Exchange(request);
  };
  const float before = ps.PullAll().values.at(1)[0];
  CHECK(push(0)->State(1).outcome() == PUSH_APPLIED);
  CHECK(push(0)->State(1).outcome() == PUSH_ALREADY_APPLIED);
  CHECK(push(2)->State(1).outcome() == PUSH_GAP);
  const Floats after = ps.PullAll().values.at(1);
  CHECK(after[0] == before - 0.5f);
}

TEST_CASE("rows whose gradients were staged are applied") {
  TestPs ps(TableModel());
  ps.Ready();
  DecodedRequest request = EmptyPush(ps, 0);
  SetRows(request, 1, {2000, 4499}, Floats(2 * kDim, 1.0f));
  DecodedRequest staged;
  *staged.header.mutable_fence() = ps.MakeFence();
  staged.header.mutable_staged()->set_id("s");
  staged.header.mutable_staged()->set_bytes(PieceBytes(request.pieces));
  staged.pieces = std::move(request.pieces);
  request.pieces.clear();
  auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kStage, Joined(EncodeExchange(staged.header, staged.pieces)), call);
  REQUIRE(call->reply.ok());
  request.header.mutable_staged()->set_id("s");
  request.header.mutable_staged()->set_calls(1);
  const float before = ps.PullAll().values.at(1)[0];
  REQUIRE(ps.Exchange(request).ok());
  CHECK(ps.PullAll().values.at(1)[0] == before - 0.5f);
}

TEST_CASE("the values of rows travel back in their order, whatever the worker has") {
  const Encoding encoding = GENERATE(ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16);
  TestPs ps(TableModel());
  ps.Ready();
  DecodedRequest request = EmptyPush(ps, 0);
  SetRows(request, 1, {2001}, Floats(kDim, 1.0f));
  const RowIds rows = {2000, 2001, 3747, 3748, 4499};
  for (const uint32_t id : {0, 1}) {
    PartitionPull* pull = request.header.add_pull();
    pull->set_partition(id);
    pull->set_encoding(encoding);
    pull->set_known_version(1);
    SetPullRows(request, *pull, id == 1 ? rows : RowIds{});
  }
  auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kExchange, Joined(EncodeExchange(request.header, request.pieces)), call);
  REQUIRE(call->reply.ok());
  const DecodedReply reply = DecodeExchangeReply(*call->reply).value();
  std::map<uint32_t, PartitionState> states;
  for (const PartitionState& state : reply.header.partitions()) states[state.partition()] = state;
  const uint64_t bytes = rows.size() * kDim * ElementBytes(encoding);
  CHECK(states[1].bytes() == bytes);
  CHECK(states[1].updates() == 1);
  CHECK(states[0].bytes() == 0);
  absl::Cord data;
  for (const PieceView& piece : reply.pieces) {
    CHECK(piece.partition == 1);
    CHECK(piece.offset == data.size());
    data.Append(piece.data);
  }
  const Floats all = ps.PullAll().values.at(1);  // the values after the push
  Floats wanted;
  for (const uint64_t row : rows) {
    const auto first = all.begin() + static_cast<int64_t>((row - 2000) * kDim);
    wanted.insert(wanted.end(), first, first + kDim);
  }
  CHECK(data == EncodedCord(encoding, wanted));
}

// A valid push of rows of two partitions, for tests to damage.
struct HostilePush {
  HostilePush() {
    ps.Ready();
    before = AllOf(ps);
    request = EmptyPush(ps, 0);
    SetRows(request, 0, {7}, Floats(kDim, 1.0f));
    SetRows(request, 1, {2000, 2003, 2009}, Floats(3 * kDim, 1.0f));
  }
  PartitionPush& push() { return *request.header.mutable_push(1); }
  void CheckRefused(const std::string& why) {
    const auto reply = ps.Exchange(request);
    CHECK(absl::IsInvalidArgument(reply.status()));
    CHECK(reply.status().message() == why);
    CHECK((AllOf(ps) == before));
    CHECK(ps.Describe().refused() == 1);
  }

  TestPs ps{TableModel()};
  std::vector<std::string> before;
  DecodedRequest request;
};

TEST_CASE("a push whose rows are not those of its partition is refused whole, nothing changes") {
  HostilePush hostile;
  DecodedRequest& request = hostile.request;
  PartitionPush& push = hostile.push();
  std::string why;
  SECTION("beyond the table") {
    SetPushRows(request, push, {2000, 4500, 5000});
    why = "partition 1: row 4500 is not one of its rows [2000, 4500)";
  }
  SECTION("of another partition") {
    SetPushRows(request, push, {1999, 2000, 2001});
    why = "partition 1: row 1999 is not one of its rows [2000, 4500)";
  }
  SECTION("unsorted") {  // a delta of 2^64 - 4 leads to a smaller id
    SetPushIds(request, push, 3,
               std::string("\xd0\x0f\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 13));
    why = "partition 1: the id of row 1 of 3 is malformed";
  }
  SECTION("2^32 rows") {
    push.mutable_rows()->set_count(uint64_t{1} << 32);
    why = "partition 1: 4294967296 rows in 4 bytes of ids";
  }
  SECTION("of no table") {
    SetRows(request, 3, {0}, Floats(1, 1.0f));
    why = "partition 3: " + hostile.ps.ps->content()->Find(3)->WhyNotItsRows({0});
  }
  SECTION("a pull beyond the table") {
    PartitionPull* pull = request.header.add_pull();
    pull->set_partition(2);
    SetPullRows(request, *pull, {kRows});
    why = "partition 2: row 5000 is not one of its rows [4500, 5000)";
  }
  hostile.CheckRefused(why);
}

TEST_CASE("a push whose values are not those of its rows is refused whole, nothing changes") {
  HostilePush hostile;
  DecodedRequest& request = hostile.request;
  PartitionPush& push = hostile.push();
  std::string why;
  SECTION("too few values") {
    SetPushRows(request, push, {2000, 2001, 2002, 2003});
    why = "partition 1: a gradient of 1800 bytes, it has 2400 for 4 rows";
  }
  SECTION("too many values") {
    SetPushRows(request, push, {});
    why = "partition 1: a gradient of 1800 bytes, it has 0 for 0 rows";
  }
  SECTION("without values") {
    push.set_bytes(0);
    request.pieces.pop_back();
    why = "partition 1: a gradient of 0 bytes, it has 1800 for 3 rows";
  }
  SECTION("a piece is missing") {
    request.pieces.back().data.RemoveSuffix(4);
    why = "partition 1: pieces for 1796 of 1800 bytes";
  }
  SECTION("not finite in one row") {
    Floats values(3 * kDim, 1.0f);
    values[kDim] = std::numeric_limits<float>::quiet_NaN();
    request.pieces.back().data = CordOf(values);
    why = "partition 1: row 2003 has a gradient that is not finite";
  }
  SECTION("compressed") {
    push.set_encoding(ENCODING_INT8);
    why = "partition 1: encoding 3 is not one of rows, which are float32, bf16 or f16";
  }
  SECTION("in a rejected batch") {
    request.header.set_rejected(true);
    why = "partition 0: a gradient in a rejected batch";
  }
  hostile.CheckRefused(why);
}

TEST_CASE("rows are refused where the job's optimizer changes the others, too") {
  const auto optimizer = GENERATE(NamedSpec{"adam"}, NamedSpec{"sgd", {{"momentum", 0.9}}},
                                  NamedSpec{"adagrad", {{"weight_decay", 0.1}}},
                                  NamedSpec{"sgd", {{"use_ema", true}}});
  TestPs ps(TableModel(optimizer));
  ps.Ready();
  DecodedRequest request = EmptyPush(ps, 0);
  SetRows(request, 0, {7}, Floats(kDim, 1.0f));
  const absl::Status refused = ps.Exchange(request).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(absl::StrContains(refused.message(), "partition 0: rows alone"));
}

TEST_CASE("a lazy table takes rows alone, whatever the optimizer") {
  TestModel model = TableModel({"adam"});
  model.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
  model.variables[0].mutable_table()->set_lazy(true);
  TestPs ps(model);
  ps.Ready();
  const Floats before = ps.PullAll().values.at(0);
  DecodedRequest request = EmptyPush(ps, 0);
  SetRows(request, 0, {7}, Floats(kDim, 1.0f));
  REQUIRE(ps.Exchange(request).ok());
  const Floats after = ps.PullAll().values.at(0);
  for (size_t i = 0; i < before.size(); ++i) {
    if ((after[i] != before[i]) != (i / kDim == 7)) FAIL("row " << i / kDim);
  }
  request = EmptyPush(ps, 1);
  SetGradient(request, 1, ENCODING_FLOAT32, Floats(2500 * kDim, 1.0f));
  CHECK(ps.Exchange(request).status().message() ==
        "partition 1: its rows are updated lazily, and the push does not name them");
}

}  // namespace
}  // namespace paracord
