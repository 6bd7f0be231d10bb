// A store of a synchronous job: outcomes of pushes, and values of pulls.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "store/partition_maker.h"
#include "store/store.h"
#include "tests/batches.h"
#include "tests/fakes.h"
#include "tests/floats.h"

namespace paracord {
namespace {

constexpr uint32_t kSyncLanes = 2;
constexpr uint64_t kWidth = uint64_t{1} << 17;  // width of a table row: two rows fill a piece

// Partitions 0 and 1 with one float, 2 a table with three rows, all trained, and 3, untrained.
struct SyncStore {
  explicit SyncStore(bool keeps_before = true) {
    content.plan = PlanOfLanes(kSyncLanes * 50, 1, kSyncLanes);
    content.sync = true;
    content.batches_end = kSyncLanes * 50;
    content.optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
    const PartitionMaker maker(content, keeps_before, 1, nullptr);
    for (uint32_t id = 0; id < 4; ++id) {
      VariableSpec variable;
      variable.set_name("v");
      variable.set_trainable(id < 3);
      PartitionSpec spec;
      spec.set_id(id);
      spec.set_row_end(id == 2 ? 3 : 1);
      if (id == 2) {
        variable.add_shape(3);
        variable.add_shape(kWidth);
        variable.mutable_table()->set_kind(TableSpec::FIXED);
        TableContents table;
        table.fixed = std::make_unique<FixedTable>(content.optimizer,
                                                   std::vector<uint64_t>{3, kWidth}, 0, true);
        table.fixed->PlaceOf(table.fixed->columns()[0]).Put(0, std::vector<float>(3 * kWidth));
        content.partitions.push_back(maker.Make(variable, spec, std::move(table)).value());
        continue;
      }
      variable.add_shape(1);
      PartitionContents contents{.value = Block(1), .slots = {}, .ledger = {}};
      contents.value.Fill(0);
      content.partitions.push_back(maker.Make(variable, spec, std::move(contents)).value());
    }
    content.trained = 3;
  }
  ~SyncStore() { waiting->Close(absl::UnavailableError("the test ends")); }

  struct Answer {
    int count = 0;
    absl::StatusOr<DecodedReply> reply = absl::UnknownError("not answered");
    bool waits() const { return reply.ok() && reply->header.waits(); }
    // Returns the first value of a partition.
    float value(uint32_t partition) const {
      for (const PieceView& piece : reply->pieces) {
        if (piece.partition != partition) continue;
        float value = 0;
        const std::string bytes(piece.data);
        std::memcpy(&value, bytes.data(), sizeof(value));
        return value;
      }
      return NAN;
    }
    PushOutcome outcome(int partition) const {
      return reply->header.partitions(partition).outcome();
    }
  };
  static StepRequest PullOf(uint64_t state, int64_t wait_ms = 500) {
    StepRequest request;
    request.state = WantedState{state, wait_ms};
    for (uint32_t id = 0; id < 4; ++id) request.wants.emplace_back().partition = id;
    request.wants[2].rows.emplace();
    return request;
  }
  // Adds a gradient for each partition, for all rows of the table.
  static void AddPush(StepRequest& request, uint64_t round, uint32_t lane, float gradient) {
    request.step.emplace();
    request.step->batch.set_split(lane);
    request.step->batch.set_batch(static_cast<uint32_t>(round));
    for (uint32_t id = 0; id < 3; ++id) {
      const std::vector<float> values(id == 2 ? 3 * kWidth : 1, gradient);
      Update& update = request.updates.emplace_back();
      update.partition = id;
      update.gradient = CordOf(values);
    }
  }
  std::shared_ptr<Answer> Apply(StepRequest request) {
    auto answer = std::make_shared<Answer>();
    Store(content, counters, *waiting)
        .Apply(std::move(request), PushFence(generation, generation.load()),
               [answer](absl::StatusOr<DecodedReply> reply) {
                 ++answer->count;
                 answer->reply = std::move(reply);
               });
    loop.RunPosted();
    return answer;
  }
  std::shared_ptr<Answer> Pull(uint64_t state, int64_t wait_ms = 500) {
    return Apply(PullOf(state, wait_ms));
  }
  std::shared_ptr<Answer> Push(uint64_t round, uint32_t lane, float gradient) {
    StepRequest request;
    AddPush(request, round, lane, gradient);
    return Apply(std::move(request));
  }
  std::shared_ptr<Answer> PushRun(uint64_t round, uint32_t first, uint32_t lanes, float gradient) {
    StepRequest request;
    AddPush(request, round, first, gradient);
    request.step->lanes = lanes;
    return Apply(std::move(request));
  }
  // Pushes to partition 0 only.
  void PushToFirst(uint64_t round, uint32_t lane) {
    const PlanBatch batch =
        *FindBatch(content.plan, BatchOf(0, lane, static_cast<uint32_t>(round)));
    content.Find(0)->Push(batch, /*rejected=*/false, {}, {});
  }

  PartitionSet content;
  UpdateCounters counters;
  std::atomic<uint64_t> generation = 1;
  ManualLoop loop;
  std::shared_ptr<MemoryShare> memory = std::make_shared<MemoryShare>();
  std::shared_ptr<WaitingPulls> waiting = std::make_shared<WaitingPulls>(loop, memory);
};

TEST_CASE("a push is taken until its round is whole, and pulls wait for exactly their state") {
  SyncStore store;
  CHECK(store.Pull(0)->value(0) == 0);
  const auto first = store.Pull(1);
  const auto second = store.Pull(2);
  CHECK(store.waiting->size() == 2);
  const auto taken = store.Push(0, 1, 2);
  for (int i = 0; i < 3; ++i) CHECK(taken->outcome(i) == PUSH_TAKEN);
  CHECK(store.counters.applied == 3);
  CHECK(first->count == 0);
  CHECK(store.Push(0, 1, 100)->outcome(0) == PUSH_ALREADY_APPLIED);
  StepRequest both = SyncStore::PullOf(1);
  both.wants[2].rows = RowIds{0, 2};
  SyncStore::AddPush(both, 0, 0, 4);
  const auto applied = store.Apply(both);
  CHECK(applied->outcome(2) == PUSH_APPLIED);
  CHECK(applied->value(0) == -3);
  CHECK(applied->value(2) == -3);
  REQUIRE(first->count == 1);
  CHECK(first->value(0) == -3);
  CHECK(first->reply->header.partitions(0).updates() == 1);
  CHECK(second->count == 0);
  CHECK(store.Push(2, 0, 1)->outcome(0) == PUSH_GAP);
  CHECK(store.Push(0, 0, 1)->outcome(0) == PUSH_ALREADY_APPLIED);
  store.Push(1, 0, 1);
  store.Push(1, 1, 1);
  REQUIRE(second->count == 1);
  CHECK(second->value(0) == -4);
}

TEST_CASE("a run of lanes is entered whole, or by no partition that has some of its lanes") {
  SyncStore store;
  const auto whole = store.PushRun(0, 0, 2, 6);
  for (int i = 0; i < 3; ++i) CHECK(whole->outcome(i) == PUSH_APPLIED);
  CHECK(whole->reply->header.partitions(0).next() == 1);
  CHECK(store.Pull(1)->value(0) == -3);
  CHECK(store.PushRun(0, 0, 2, 6)->outcome(0) == PUSH_ALREADY_APPLIED);
  CHECK(store.PushRun(2, 0, 2, 6)->outcome(0) == PUSH_GAP);
  store.PushToFirst(1, 1);
  const auto partly = store.PushRun(1, 0, 2, 6);
  CHECK(partly->outcome(0) == PUSH_PARTLY);
  CHECK(partly->reply->header.partitions(0).next() == 1);
  CHECK(partly->outcome(1) == PUSH_APPLIED);
  // The worker must now push lane by lane.
  const auto first = store.Push(1, 0, 2);
  CHECK(first->outcome(0) == PUSH_APPLIED);
  CHECK(first->outcome(1) == PUSH_ALREADY_APPLIED);
  CHECK(store.Pull(2)->value(0) == -4);
  CHECK(store.Pull(2)->value(1) == -6);
}

TEST_CASE("a run that is none is refused by the key that says how many lanes it has") {
  SyncStore store;
  const auto refused = [&](uint32_t first, uint32_t lanes, uint32_t round = 0) {
    const auto answer = store.PushRun(round, first, lanes, 1);
    CHECK(answer->reply.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(answer->reply.status().message());
  };
  CHECK(refused(1, 2) ==
        "lanes: the push is of 2 from lane 1 on, and round 0 of the epoch has 2: the number has to "
        "be a power of two that divides the first lane, and the last lane has to be one of the "
        "round");
  for (const uint32_t lanes : {3u, 4u, 1u << 31, UINT32_MAX}) {
    CHECK(refused(0, lanes).starts_with(absl::StrCat("lanes: the push is of ", lanes, " from")));
  }
  StepRequest rejected;
  rejected.step.emplace();
  rejected.step->rejected = true;
  rejected.step->lanes = 2;
  CHECK(store.Apply(rejected)->reply.status().message() ==
        "lanes: the push is of 2, and a rejected batch is pushed by itself");
  store.content.sync = false;
  CHECK(refused(0, 2).find("lanes: the push is of 2, and only in synchronous training") == 0);
  CHECK(store.Pull(0)->value(0) == 0);
}

TEST_CASE("a pull of the state before has its values until a gradient of the next round is there") {
  SyncStore store;
  for (const uint32_t lane : {0, 1}) store.Push(0, lane, 3);
  for (const uint32_t lane : {0, 1}) store.Push(1, lane, 5);
  StepRequest request = SyncStore::PullOf(1);
  request.wants[0].encoding = ENCODING_BF16;
  request.wants[1].known_version = 1;
  request.wants[2].encoding = ENCODING_BF16;
  request.wants[2].rows = std::nullopt;  // all rows
  const auto before = store.Apply(request);
  REQUIRE(before->count == 1);
  REQUIRE(before->reply.ok());
  const uint16_t three = 0xc040;  // -3
  for (const PieceView& piece : before->reply->pieces) {
    const std::string bytes(piece.data);
    if (piece.partition == 3) continue;
    CHECK(piece.partition != 1);  // the worker has it already
    CHECK(bytes.substr(0, 2) == std::string(reinterpret_cast<const char*>(&three), 2));
    CHECK(bytes.substr(bytes.size() - 2) == bytes.substr(0, 2));
  }
  for (int i = 0; i < 3; ++i) CHECK(before->reply->header.partitions(i).updates() == 1);
  CHECK(store.Pull(2)->value(0) == -8);

  store.Push(2, 1, 1);
  const absl::Status gone = store.Pull(1)->reply.status();
  CHECK(gone == absl::OutOfRangeError(
                    "partition 0: the values of state 1 are wanted, and it is at state 2"));
  CHECK(store.waiting->size() == 0);
}

TEST_CASE("a state is wanted of every trained partition") {
  SyncStore store;
  for (const size_t left_out : {0, 1, 2}) {
    StepRequest request = SyncStore::PullOf(0);
    request.wants.erase(request.wants.begin() + static_cast<int64_t>(left_out));
    const absl::Status status = store.Apply(request)->reply.status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StartsWith(status.message(), absl::StrCat("partition ", left_out, ": ")));
    SyncStore::AddPush(request, 0, 0, 1);
    CHECK(absl::IsInvalidArgument(store.Apply(request)->reply.status()));
    request.state.reset();  // a pull needs no proof
    request.step.reset();
    request.updates.clear();
    CHECK(store.Apply(request)->reply.ok());
  }
  // Nothing was entered.
  CHECK(store.content.Find(0)->LackOf(store.content.plan, 1)->lanes.size() == 2);
  StepRequest request = SyncStore::PullOf(0);
  request.wants.pop_back();  // the untrained one
  CHECK(store.Apply(request)->reply.ok());
  CHECK(absl::IsInvalidArgument(store.Pull(51)->reply.status()));
}

TEST_CASE("a pull whose time is over says which lanes the round lacks by then") {
  SyncStore store;
  const auto pull = store.Pull(1, 20);
  store.Push(0, 0, 1);
  store.loop.Advance(20);
  REQUIRE(pull->count == 1);
  REQUIRE(pull->waits());
  REQUIRE(pull->reply->header.missing_size() == 1);
  CHECK(pull->reply->header.missing(0) == 1);
}

TEST_CASE("a pull does not wait for one partition where another is past its state") {
  SyncStore store(/*keeps_before=*/false);
  for (uint64_t round = 0; round < 2; ++round) {
    for (const uint32_t lane : {0, 1}) store.PushToFirst(round, lane);
  }
  const auto pull = store.Pull(1);
  REQUIRE(pull->count == 1);
  CHECK(
      pull->reply.status() ==
      absl::OutOfRangeError("partition 0: the values of state 1 are wanted, and it is at state 2"));
}

TEST_CASE("a pull that waits is told when its time is over that its state is gone") {
  SyncStore store(/*keeps_before=*/false);
  const auto pull = store.Pull(1, 20);
  for (uint64_t round = 0; round < 2; ++round) {
    for (const uint32_t lane : {0, 1}) store.PushToFirst(round, lane);
  }
  store.loop.Advance(20);
  REQUIRE(pull->count == 1);
  CHECK(absl::IsOutOfRange(pull->reply.status()));
}

// A table that moves on to later rounds while its rows are read.
class MovingTable : public TablePartition {
 public:
  using TablePartition::TablePartition;
  absl::StatusOr<uint64_t> PullRowsAt(AtState state, std::span<const uint64_t> ids,
                                      std::span<float> values) const override {
    if (++pieces_ == 2) move();
    return TablePartition::PullRowsAt(state, ids, values);
  }
  std::function<void()> move;

 private:
  mutable int pieces_ = 0;
};

TEST_CASE("pieces of a table are of one state, even if it moves on between them") {
  for (const uint64_t rounds : {1, 2}) {
    CAPTURE(rounds);
    SyncStore store;
    TableContents contents;
    contents.fixed = std::make_unique<FixedTable>(store.content.optimizer,
                                                  std::vector<uint64_t>{3, kWidth}, 0, true);
    contents.fixed->PlaceOf(contents.fixed->columns()[0]).Put(0, std::vector<float>(3 * kWidth));
    auto table = std::make_unique<MovingTable>(
        store.content.Find(2)->facts(), 1, std::move(contents), nullptr,
        RoundsOptions{store.content.plan, /*state=*/0, /*keeps_before=*/true});
    table->move = [&] {
      for (uint64_t round = 0; round < rounds; ++round) {
        for (const uint32_t lane : {0, 1}) store.Push(round, lane, 7);
      }
    };
    store.content.partitions[2] = std::move(table);
    StepRequest request = SyncStore::PullOf(0);
    request.wants[2].rows = RowIds{0, 1, 2};
    const auto pulled = store.Apply(request);
    if (rounds == 2) {
      CHECK(absl::IsOutOfRange(pulled->reply.status()));
      continue;
    }
    REQUIRE(pulled->reply.ok());
    size_t pieces = 0;
    for (const PieceView& piece : pulled->reply->pieces) {
      if (piece.partition != 2) continue;
      ++pieces;
      CHECK(std::string(piece.data) == std::string(piece.data.size(), '\0'));
    }
    CHECK(pieces == 2);
    CHECK(pulled->reply->header.partitions(2).updates() == 0);
  }
}

// A pull of a worker that has the values from another holder.
StepRequest StatePullOf(uint64_t state) {
  StepRequest request = SyncStore::PullOf(state);
  for (Want& want : request.wants) {
    want.rows.reset();
    want.state_only = true;
  }
  return request;
}

TEST_CASE("a pull of the state alone waits for it, and brings no bytes") {
  SyncStore store;
  StepRequest request = StatePullOf(1);
  SyncStore::AddPush(request, 0, 0, 4);
  const auto pushed = store.Apply(std::move(request));
  const auto pull = store.Apply(StatePullOf(1));
  CHECK(pushed->count + pull->count == 0);
  CHECK(store.Push(0, 1, 2)->outcome(0) == PUSH_APPLIED);
  for (const auto& answer : {pushed, pull}) {
    REQUIRE(answer->count == 1);
    REQUIRE(answer->reply.ok());
    CHECK_FALSE(answer->waits());
    CHECK(answer->reply->pieces.empty());
    REQUIRE(answer->reply->header.partitions_size() == 4);
    for (const PartitionState& of : answer->reply->header.partitions()) CHECK(of.bytes() == 0);
  }
  CHECK(pushed->outcome(2) == PUSH_TAKEN);
  // Nothing is pinned by an answer without values, and the next push writes in place.
  CHECK(store.content.Find(0)->pinned()->bytes() == 0);
}

TEST_CASE("a pull of the state alone ends where a state is gone, and shows that nobody needs it") {
  SyncStore store;
  for (const uint32_t lane : {0u, 1u}) store.Push(0, lane, 1);
  CHECK(store.Apply(StatePullOf(0))->reply.ok());  // the state before
  store.Push(1, 0, 1);
  CHECK(absl::IsOutOfRange(store.Apply(StatePullOf(0))->reply.status()));
  // As every pull of a state it names all trained partitions.
  StepRequest some = StatePullOf(1);
  some.wants.erase(some.wants.begin());
  CHECK(absl::IsInvalidArgument(store.Apply(std::move(some))->reply.status()));
  StepRequest rows = StatePullOf(1);
  rows.wants[2].rows = RowIds{1};
  CHECK(store.Apply(std::move(rows))->reply.status().message() ==
        "partition 2: rows are named, and their values are not wanted");
}

}  // namespace
}  // namespace paracord
