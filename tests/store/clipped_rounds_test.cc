// Rounds that are clipped by norm wait for the norms of all partitions, and have the bits of a
// naive run.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "exchange/round_norms.h"
#include "store/store.h"
#include "tests/fakes.h"
#include "tests/sanitized.h"
#include "tests/store/pusher.h"

namespace paracord {
namespace {

RoundNorms NormsOf(uint64_t round, const std::vector<double>& squares) {
  RoundNorms norms;
  norms.set_round(round);
  norms.mutable_squares()->Add(squares.begin(), squares.end());
  return norms;
}

TEST_CASE("a round waits for its norms, and has the bits of a naive run that clips the mean") {
  for (const SyncKind& kind : SyncKinds()) {
    const bool exempt = kind.variable.moving_average() > 0;
    for (uint64_t seed = 1; seed <= UnderSanitizers(1u, 3u); ++seed) {
      CAPTURE(kind.name, seed);
      SyncDraws draws(seed);
      const auto lanes_of_all = static_cast<uint32_t>(1 + draws.Below(4));
      const double clipnorm = 0.5 * static_cast<double>(1 + draws.Below(16));
      Pusher pusher(kind, PlanOfLanes(30, 1, lanes_of_all), true, {.clipnorm = clipnorm});
      PlainRounds reference(kind, pusher.plan);
      Partition& partition = *pusher.partition;
      const PushFence fence(pusher.newest, pusher.generation);
      for (uint64_t state = 0; state < RoundsPerEpoch(pusher.plan); ++state) {
        const std::vector<SyncLane> lanes = draws.LanesFor(kind, LanesOfRound(pusher.plan, state));
        const bool rejected = std::ranges::all_of(lanes, &SyncLane::rejected);
        for (uint32_t lane : draws.Order(static_cast<uint32_t>(lanes.size()))) {
          pusher.Push(state, lane, lanes[lane]);
        }
        reference.Apply(state, lanes, exempt ? 0 : clipnorm);
        if (rejected) {
          reference.Check(pusher.partition);
          continue;
        }
        REQUIRE(partition.GetCounts().state == state);
        const auto lack = partition.LackOf(pusher.plan, state + 1);
        REQUIRE((lack->norms && lack->lanes.empty()));
        const auto told = partition.SquaresOfMean(pusher.generation);
        REQUIRE(told->round == state);
        CHECK_FALSE(partition.TakeNorms(NormsOf(state + 1, {told->squares}), fence));
        const double less = std::nextafter(told->squares, -1);
        if (!exempt) CHECK_FALSE(partition.TakeNorms(NormsOf(state, {less}), fence));
        std::atomic<uint64_t> newer = 7;
        CHECK_FALSE(partition.TakeNorms(NormsOf(state, {told->squares}), PushFence(newer, 6)));
        CHECK(partition.TakeNorms(NormsOf(state, {told->squares}), fence));
        CHECK_FALSE(partition.TakeNorms(NormsOf(state, {told->squares}), fence));
        reference.Check(pusher.partition);
        CHECK(partition.SquaresOfMean(pusher.generation)->squares == told->squares);
      }
    }
  }
}

TEST_CASE("a new generation drops a round that waits for norms") {
  for (const SyncKind& kind : SyncKinds()) {
    CAPTURE(kind.name);
    Pusher pusher(kind, PlanOfLanes(24, 1, 2), true, {.clipnorm = 1});
    SyncDraws draws(3);
    std::vector<SyncLane> lanes(2);
    for (SyncLane& lane : lanes) lane.gradient = draws.GradientFor(kind);
    pusher.PushAll(0, lanes);
    const double squares = pusher.partition->SquaresOfMean(1)->squares;
    pusher.generation = ++pusher.newest;
    CHECK_FALSE(pusher.partition->SquaresOfMean(2).has_value());
    const PushFence fence(pusher.newest, pusher.generation);
    CHECK_FALSE(pusher.partition->TakeNorms(NormsOf(0, {squares}), fence));
    CHECK(pusher.partition->GetCounts().state == 0);
    CHECK(pusher.partition->LackOf(pusher.plan, 1)->lanes.size() == 2);
    pusher.PushAll(0, lanes);
    CHECK(pusher.partition->TakeNorms(NormsOf(0, {squares}), fence));
    CHECK(pusher.partition->GetCounts().state == 1);
  }
}

TEST_CASE("a mean that is not finite ends its wait, and makes its partition unhealthy") {
  Pusher pusher(DenseKind("plain", {"sgd"}), PlanOfLanes(24, 3, 2), true, {.clipnorm = 1});
  const float most = std::numeric_limits<float>::max();
  const SyncLane lane{SyncGradient({{0, std::vector<float>(30, most)}}), false};
  pusher.PushAll(0, {lane, lane});
  const double squares = pusher.partition->SquaresOfMean(1)->squares;
  CHECK(squares == kSquaresMax);
  CHECK(pusher.partition->TakeNorms(NormsOf(0, {squares}), PushFence(pusher.newest, 1)));
  CHECK_FALSE(pusher.partition->GetCounts().healthy);
}

// Stores with some of three partitions: 0 and 1 of the first variable, 2 of the second.
struct ClipStore {
  ClipStore(const std::vector<uint32_t>& partitions, bool alone, const NormClip& clip)
      : waiting(std::make_shared<WaitingPulls>(loop, std::make_shared<MemoryShare>())) {
    content.plan = PlanOfLanes(20, 1, 2);
    content.sync = true;
    content.clip =
        RoundClip{clip, /*whole=*/{alone, std::ranges::count(partitions, 2) == 1}, alone};
    content.optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
    const PartitionMaker maker(content, /*keeps_before=*/!alone, /*seed=*/1, nullptr);
    for (const uint32_t id : partitions) {
      VariableSpec variable;
      variable.add_shape(4);
      variable.set_trainable(true);
      PartitionSpec spec;
      spec.set_id(id);
      spec.set_variable(id == 2 ? 1 : 0);
      spec.set_row_end(4);
      PartitionContents contents{.value = Block(4), .slots = {}, .ledger = {}};
      contents.value.Fill(0);
      content.partitions.push_back(maker.Make(variable, spec, std::move(contents)).value());
    }
    content.trained = partitions.size();
  }
  ~ClipStore() { waiting->Close(absl::UnavailableError("the test ends")); }

  // Every element of partition p in lane i is p + i + 1.
  absl::StatusOr<DecodedReply> Exchange(std::optional<uint32_t> lane, uint64_t state,
                                        const std::optional<RoundNorms>& norms = {},
                                        int64_t wait_ms = 0, bool squares = false) {
    StepRequest request;
    request.state = WantedState{state, wait_ms, squares};
    request.norms = norms;
    if (lane.has_value()) {
      request.step.emplace();
      request.step->batch.set_split(*lane);
    }
    for (const auto& partition : content.partitions) {
      const uint32_t id = partition->facts().id;
      request.wants.emplace_back().partition = id;
      if (!lane.has_value()) continue;
      Update& update = request.updates.emplace_back();
      update.partition = id;
      const std::vector<float> values(4, static_cast<float>(id + *lane + 1));
      update.gradient = absl::Cord({reinterpret_cast<const char*>(values.data()), 16});
    }
    absl::StatusOr<DecodedReply> answer = absl::UnknownError("waits");
    Store(content, counters, *waiting)
        .Apply(std::move(request), PushFence(generation, 1),
               [&](absl::StatusOr<DecodedReply> reply) { answer = std::move(reply); });
    return answer;
  }
  float ValueOf(uint32_t id) const {
    ChunkRefs values;
    content.Find(id)->Pull(values);
    return values[0].values()[0];
  }

  ManualLoop loop;
  std::shared_ptr<WaitingPulls> waiting;
  PartitionSet content;
  UpdateCounters counters;
  std::atomic<uint64_t> generation = 1;
};

// The mean of both lanes is p + 1.5.
float Expected(uint32_t id, const NormClip& clip) {
  const double squares[] = {4 * 1.5 * 1.5 + 4 * 2.5 * 2.5, 4 * 3.5 * 3.5};
  const double norm =
      std::sqrt(clip.clipnorm > 0 ? squares[id == 2 ? 1 : 0] : squares[0] + squares[1]);
  const double most = clip.clipnorm > 0 ? clip.clipnorm : clip.global_clipnorm;
  return -(static_cast<float>(id) + 1.5f) * (norm <= most ? 1 : static_cast<float>(most / norm));
}

const NormClip kClips[] = {{.clipnorm = 6.5}, {.global_clipnorm = 2}};

TEST_CASE("a store with all partitions of a job clips rounds without a trip") {
  for (const NormClip& clip : kClips) {
    ClipStore store({0, 1, 2}, /*alone=*/true, clip);
    CHECK(store.Exchange(1, 1)->header.waits());
    const auto reply = store.Exchange(0, 1);
    CHECK_FALSE(reply->header.waits());
    CHECK_FALSE(reply->header.partitions(0).has_squares());
    for (uint32_t id = 0; id < 3; ++id) CHECK(store.ValueOf(id) == Expected(id, clip));
  }
}

std::vector<PartitionSquares> Told(const DecodedReply& reply) {
  std::vector<PartitionSquares> told;
  for (const PartitionState& state : reply.header.partitions()) {
    REQUIRE(state.has_squares());
    CHECK(state.squares_round() == 0);
    told.push_back({state.partition(), state.partition() == 2 ? 1u : 0u, state.squares()});
  }
  return told;
}

TEST_CASE("stores clip a round by norms that somebody carries between them") {
  for (const NormClip& clip : kClips) {
    ClipStore first({1}, false, clip), second({0, 2}, false, clip);
    for (const uint32_t lane : {1u, 0u}) {
      for (ClipStore* store : {&first, &second}) {
        const auto reply = store->Exchange(lane, 1);
        CHECK(reply->header.waits());
        CHECK(reply->header.norms_wanted() == (lane == 0));
        CHECK(reply->header.partitions(0).outcome() == PUSH_TAKEN);
      }
    }
    // Both pulls return at once: all lanes are in, and only norms are missing.
    const auto one = first.Exchange({}, 1, {}, 500), two = second.Exchange({}, 1, {}, 500);
    std::vector<PartitionSquares> told = Told(*one);
    for (const PartitionSquares& of : Told(*two)) told.push_back(of);
    const RoundNorms norms = NormsOf(0, SquaresOfVariables(told, 2));
    CHECK_FALSE(first.Exchange({}, 1, norms)->header.waits());
    CHECK(first.content.partitions[0]->GetCounts().state == 1);
    // A store that has applied the round still reports the squares.
    CHECK(Told(*first.Exchange({}, 1))[0].squares == told[0].squares);
    CHECK_FALSE(second.Exchange({}, 1, norms)->header.waits());
    CHECK(first.ValueOf(1) == Expected(1, clip));
    for (const uint32_t id : {0u, 2u}) CHECK(second.ValueOf(id) == Expected(id, clip));
  }
}

TEST_CASE("norms are refused that are not those of partitions which this store knows whole") {
  // Partition 0 is one of two partitions of the first variable. Partition 2 is the whole second
  // variable.
  ClipStore store({0, 2}, false, kClips[1]);
  for (const uint32_t lane : {0u, 1u}) CHECK(store.Exchange(lane, 1).ok());
  const std::vector<PartitionSquares> own = Told(*store.Exchange({}, 1));
  const double first = own[0].squares, second = own[1].squares;
  const double max = std::numeric_limits<double>::max();
  for (const std::vector<double>& squares :
       std::vector<std::vector<double>>{{std::nextafter(first, 0), second},
                                        {first, std::nextafter(second, max)},
                                        {first, std::nextafter(second, 0)},
                                        {first, 0},
                                        {first, max},
                                        {0, second}}) {
    const auto refused = store.Exchange({}, 1, NormsOf(0, squares)).status();
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
    CHECK(store.content.partitions[0]->GetCounts().state == 0);
  }
  CHECK_FALSE(store.Exchange({}, 1, NormsOf(0, {2 * first, second}))->header.waits());
  CHECK(store.content.partitions[0]->GetCounts().state == 1);
  // Late norms of a finished round are ignored.
  CHECK_FALSE(store.Exchange({}, 1, NormsOf(0, {2 * first, second}))->header.waits());
}

TEST_CASE("norms that cannot be are refused, and change nothing") {
  ClipStore store({1}, false, kClips[0]);
  for (const uint32_t lane : {0u, 1u}) CHECK(store.Exchange(lane, 1).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& squares : std::vector<std::vector<double>>{
           {}, {100}, {100, 100, 100}, {nan, 100}, {100, nan}, {-1, 100}, {inf, 100}, {100, inf}}) {
    const auto refused = store.Exchange({}, 1, NormsOf(0, squares)).status();
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(store.Exchange({}, 1, NormsOf(1, {100, 100}))->header.norms_wanted());
  CHECK(store.content.partitions[0]->GetCounts().state == 0);
  store.content.clip.reset();
  CHECK(store.Exchange({}, 0, NormsOf(0, {100, 100})).status().message() ==
        "norms of a round come, and the job clips no round by norm");
}

TEST_CASE("a store with all partitions tells squares to who carries norms to further holders") {
  for (const NormClip& clip : kClips) {
    ClipStore whole({0, 1, 2}, /*alone=*/true, clip), further({0, 2}, false, clip);
    for (const uint32_t lane : {0u, 1u}) {
      REQUIRE(whole.Exchange(lane, 1).ok());
      REQUIRE(further.Exchange(lane, 1).ok());
    }
    CHECK(further.Exchange({}, 1)->header.norms_wanted());
    const auto asked = whole.Exchange({}, 1, {}, 0, /*squares=*/true);
    CHECK_FALSE(asked->header.waits());
    const std::vector<PartitionSquares> told = Told(*asked);
    REQUIRE(told.size() == 3);
    const RoundNorms norms = NormsOf(0, SquaresOfVariables(told, 2));
    CHECK_FALSE(further.Exchange({}, 1, norms)->header.waits());
    for (const uint32_t id : {0u, 2u}) CHECK(further.ValueOf(id) == whole.ValueOf(id));
  }
}

}  // namespace
}  // namespace paracord
