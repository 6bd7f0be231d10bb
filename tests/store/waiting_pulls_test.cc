#include "store/waiting_pulls.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstring>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "store/dense_partition.h"
#include "store/store.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

constexpr uint32_t kLanes = 4, kRounds = 200;

// A store with two trained partitions of one float, 0 and 1, and an untrained one.
struct LaneStore {
  LaneStore() {
    content.plan = PlanOfLanes(kLanes * kRounds, 1, kLanes);
    content.optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
    for (uint32_t id = 0; id < 3; ++id) {
      PartitionContents contents{.value = Block(1), .slots = {}, .ledger = {}};
      contents.value.Fill(0);
      content.partitions.push_back(std::make_unique<DensePartition>(
          Partition::Facts{
              .id = id, .name = "v", .shape = {1}, .trained = id < 2, .bytes = sizeof(float)},
          content.optimizer, std::move(contents)));
    }
    content.trained = 2;
  }
  ~LaneStore() { waiting->Close(absl::UnavailableError("the test ends")); }

  struct Answer {
    int count = 0;
    absl::StatusOr<DecodedReply> reply = absl::UnknownError("not answered");
    bool waits() const { return reply.ok() && reply->header.waits(); }
    float value() const {
      float value = 0;
      const std::string bytes(reply->pieces.at(0).data);
      std::memcpy(&value, bytes.data(), sizeof(value));
      return value;
    }
  };
  static StepRequest PullOf(uint64_t state, int64_t wait_ms = 500, uint32_t partitions = 3) {
    StepRequest request;
    request.state = WantedState{state, wait_ms};
    for (uint32_t id = 0; id < partitions; ++id) request.wants.emplace_back().partition = id;
    return request;
  }
  // Adds a gradient of 1 for each partition.
  static void AddPush(StepRequest& request, uint32_t lane, uint32_t batch) {
    static const float one = 1;
    request.step.emplace();
    request.step->batch.set_split(lane);
    request.step->batch.set_batch(batch);
    for (uint32_t id = 0; id < 2; ++id) {
      Update& update = request.updates.emplace_back();
      update.partition = id;
      update.gradient = absl::Cord({reinterpret_cast<const char*>(&one), sizeof(one)});
    }
  }
  std::shared_ptr<Answer> Apply(StepRequest request) {
    auto answer = std::make_shared<Answer>();
    ticket = Store(content, counters, *waiting)
                 .Apply(std::move(request), PushFence(generation, 1),
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
  std::shared_ptr<Answer> Push(uint32_t lane, uint32_t batch) {
    StepRequest request;
    AddPush(request, lane, batch);
    return Apply(std::move(request));
  }

  PartitionSet content;
  UpdateCounters counters;
  std::atomic<uint64_t> generation = 1;
  ManualLoop loop;
  std::shared_ptr<MemoryShare> memory = std::make_shared<MemoryShare>();
  std::shared_ptr<WaitingPulls> waiting = std::make_shared<WaitingPulls>(loop, memory);
  WaitingPulls::Ticket ticket;  // returned by the last Apply
};

TEST_CASE("a pull waits for the lanes that its state lacks, and has the values that they bring") {
  LaneStore store;
  CHECK(store.Pull(0)->value() == 0);
  const auto first = store.Pull(1);
  const auto second = store.Pull(2);
  CHECK(store.waiting->size() == 2);
  CHECK(store.memory->bytes() > 0);
  for (uint32_t lane = 0; lane < 3; ++lane) CHECK(store.Push(lane, 0)->count == 1);
  CHECK(store.Push(0, 1)->count == 1);  // a lane runs ahead
  CHECK(first->count == 0);
  // The push of a request is entered at once; its pull waits.
  StepRequest both = LaneStore::PullOf(2);
  LaneStore::AddPush(both, 3, 0);
  const auto third = store.Apply(both);
  REQUIRE(first->count == 1);
  CHECK(first->value() == -5);
  CHECK(third->count == 0);
  for (uint32_t lane = 1; lane < 4; ++lane) CHECK(store.Push(lane, 1)->count == 1);
  CHECK(second->value() == -8);
  CHECK(third->value() == -8);
  CHECK(third->reply->header.partitions(0).outcome() == PUSH_APPLIED);
  CHECK(third->reply->header.partitions(0).updates() == 8);
  CHECK(first->count + second->count + third->count == 3);
  CHECK(store.waiting->size() == 0);
  CHECK(store.memory->bytes() == 0);
}

TEST_CASE("a pull whose time is over says which lanes are missing, and what became of its push") {
  LaneStore store;
  const auto soon = store.Pull(1, 20);
  StepRequest both = LaneStore::PullOf(1, 3'600'000);
  LaneStore::AddPush(both, 2, 0);
  const auto late = store.Apply(both);
  store.Push(0, 0);
  store.loop.Advance(19);
  CHECK(soon->count == 0);
  store.loop.Advance(1);
  REQUIRE(soon->waits());
  CHECK(soon->reply->pieces.empty());
  CHECK(std::vector<uint32_t>(soon->reply->header.missing().begin(),
                              soon->reply->header.missing().end()) == std::vector<uint32_t>{1, 3});
  store.loop.Advance(WaitingPulls::kWaitMsMax - 21);
  CHECK(late->count == 0);
  store.loop.Advance(1);  // an hour is capped
  REQUIRE(late->waits());
  REQUIRE(late->reply->header.partitions_size() == 2);
  CHECK(late->reply->header.partitions(1).outcome() == PUSH_APPLIED);
  const auto at_once = store.Pull(1, 0);
  CHECK(at_once->waits());
  CHECK(store.waiting->size() == 0);
  store.loop.Advance(1000);
  CHECK(soon->count + late->count + at_once->count == 3);
}

TEST_CASE("each partition that is wanted and trained has to have the state") {
  LaneStore store;
  const auto all = store.Pull(1);
  const auto one = store.Apply(LaneStore::PullOf(1, 500, 1));
  const float gradient = 1;
  const Gradient update = *Gradient::Read(
      ENCODING_FLOAT32, 1, absl::Cord({reinterpret_cast<const char*>(&gradient), sizeof(float)}));
  const auto push = [&](uint32_t id, uint32_t lane) {
    store.content.Find(id)->Push({lane, 0, kRounds}, false, {update, {}}, {});
  };
  for (uint32_t lane = 0; lane < kLanes; ++lane) push(0, lane);
  store.waiting->Entered(store.content, {0, 0, kRounds});
  CHECK(one->count == 1);
  CHECK(all->count == 0);
  for (uint32_t lane = 0; lane < kLanes; ++lane) push(1, lane);
  store.waiting->Entered(store.content, {0, 1, kRounds});  // brings another state
  CHECK(all->count == 0);
  store.waiting->Entered(store.content, {0, 0, kRounds});
  CHECK(all->value() == -4);
}

TEST_CASE("a state that cannot be wanted is refused, and its push is not entered") {
  LaneStore store;
  store.content.batches_end = 100;
  CHECK(store.Pull(25)->count == 0);
  StepRequest both = LaneStore::PullOf(26);
  LaneStore::AddPush(both, 0, 0);
  CHECK(store.Apply(both)->reply.status().message() ==
        "the values of state 26 are wanted, and the job has 25 rounds: no worker ever gets there");
  CHECK(store.counters.refused == 1);
  CHECK(absl::IsInvalidArgument(store.Pull(UINT64_MAX)->reply.status()));
  store.content.plan.clear_lanes();
  CHECK(absl::IsInvalidArgument(store.Pull(0)->reply.status()));
  CHECK(store.content.Find(0)->GetCounts().updates == 0);
}

TEST_CASE("so many pulls wait and no more, in so much memory, and those go on waiting") {
  LaneStore store;
  std::vector<std::shared_ptr<LaneStore::Answer>> answers;
  int refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto answer = store.Pull(1);
    if (absl::IsResourceExhausted(answer->reply.status())) ++refused;
    if (answer->count == 0) answers.push_back(answer);
  }
  CHECK(answers.size() == WaitingPulls::kPullsMax);
  CHECK(refused == 100'000 - static_cast<int>(WaitingPulls::kPullsMax));
  const uint64_t each = static_cast<uint64_t>(store.memory->bytes()) / answers.size();
  for (uint32_t lane = 0; lane < kLanes; ++lane) store.Push(lane, 0);
  for (const auto& answer : answers) REQUIRE(answer->count == 1);
  CHECK(store.memory->bytes() == 0);

  store.memory->SetMax(3 * each, 0);
  for (int i = 0; i < 3; ++i) CHECK(store.Pull(2)->count == 0);
  const absl::Status full = store.Pull(2)->reply.status();
  CHECK(absl::IsResourceExhausted(full));
  INFO(full);
  CHECK(absl::StrContains(full.message(), "--memory-limit"));
}

TEST_CASE("a pull of a generation that is over is not answered with values of the next one") {
  LaneStore store;
  for (uint32_t lane = 0; lane < 3; ++lane) store.Push(lane, 0);
  const auto first = store.Pull(1);
  const auto second = store.Pull(2);
  store.generation = 2;
  const auto late = store.Pull(1);
  CHECK(absl::IsAborted(late->reply.status()));
  store.content.Find(0)->Push({3, 0, kRounds}, true, {}, {});
  store.content.Find(1)->Push({3, 0, kRounds}, true, {}, {});
  store.waiting->Entered(store.content, {3, 0, kRounds});
  CHECK(absl::IsAborted(first->reply.status()));
  CHECK(second->count == 0);
  store.waiting->EndAll(absl::AbortedError("taken over"));
  CHECK(second->reply.status().message() == "taken over");
  store.waiting->Close(absl::UnavailableError("closed"));
  store.generation = 1;
  CHECK(absl::IsUnavailable(store.Pull(5)->reply.status()));
  store.loop.Advance(1000);
  CHECK(first->count + second->count + late->count == 3);
}

TEST_CASE("a pull that is dropped gives its memory back, and the others stay") {
  LaneStore store;
  const auto dropped = store.Pull(1);
  const WaitingPulls::Ticket ticket = store.ticket;
  REQUIRE(ticket.waits());
  const auto stays = store.Pull(1);
  const int64_t both = store.memory->bytes();
  store.waiting->Drop(ticket);
  CHECK(store.memory->bytes() == both / 2);
  store.waiting->Drop(ticket);
  for (uint32_t lane = 0; lane < kLanes; ++lane) store.Push(lane, 0);
  CHECK(dropped->count == 0);
  CHECK(stays->count == 1);
}

TEST_CASE("whatever comes, a pull is answered when its state has come or its time is over") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    SeededRandom random(seed);
    const auto below = [&](uint64_t n) { return random.Next() % n; };
    LaneStore store;
    store.content.plan = PlanOfLanes(1 + below(11), 1, kLanes);
    const DataPlan& plan = store.content.plan;
    const uint64_t lanes = SplitsPerEpoch(plan), rounds = plan.split_batches();
    struct Waiting {
      std::shared_ptr<LaneStore::Answer> answer;
      uint64_t state;
      int64_t until_ms;
      WaitingPulls::Ticket ticket;
    };
    std::vector<Waiting> waiting;
    std::map<uint64_t, uint32_t> next;  // next batch of each split
    const auto has_come = [&](uint64_t state) {
      return MissingLanes(store.content.Find(0)->GetCounts().ledger, plan, state).empty();
    };
    for (int i = 0; i < 400; ++i) {
      const uint64_t split = below(2 * lanes), what = below(8);
      StepRequest request;
      const bool pushes = what < 5 && next[split] < BatchesInSplit(plan, split % lanes);
      if (what >= 3 && what < 6) {
        request = LaneStore::PullOf(below(2 * rounds + 1), static_cast<int64_t>(below(700)));
      }
      if (pushes) {
        LaneStore::AddPush(request, static_cast<uint32_t>(split % lanes), next[split]++);
        request.step->batch.set_epoch(split / lanes);
      }
      const auto answer = store.Apply(request);
      if (request.state.has_value() && answer->count == 0) {
        const int64_t wait_ms = std::min(request.state->wait_ms, WaitingPulls::kWaitMsMax);
        waiting.push_back(
            {answer, request.state->state, store.loop.NowMs() + wait_ms, store.ticket});
      } else if (request.state.has_value()) {
        CHECK(answer->waits() == !has_come(request.state->state));
      }
      if (what == 6) store.loop.Advance(static_cast<int64_t>(below(300)));
      if (what == 7 && !waiting.empty()) {
        store.waiting->Drop(waiting.front().ticket);
        CHECK(waiting.front().answer->count == 0);
        waiting.erase(waiting.begin());
      }
      std::erase_if(waiting, [&](const Waiting& one) {
        const bool come = has_come(one.state);
        const bool over = !come && one.until_ms <= store.loop.NowMs();
        REQUIRE(one.answer->count == (come || over ? 1 : 0));
        if (come || over) REQUIRE(one.answer->waits() == over);
        return come || over;
      });
      REQUIRE(store.waiting->size() == waiting.size());
    }
  }
}

// The clock stands still, so a push that forgets a waiting pull is noticed.
TEST_CASE("threads in lock-step answer each other without the loop, each once") {
  LaneStore store;
  std::atomic<uint32_t> stuck = 0;
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    threads.emplace_back([&store, &stuck, lane] {
      for (uint32_t batch = 0; batch < kRounds && stuck == 0; ++batch) {
        StepRequest request = LaneStore::PullOf(batch + 1);
        LaneStore::AddPush(request, lane, batch);
        std::mutex mu;
        std::condition_variable answered;
        bool values = false;
        const auto reply = [&](absl::StatusOr<DecodedReply> answer) {
          const std::lock_guard lock(mu);
          values = answer.ok() && !answer->header.waits();
          answered.notify_one();
        };
        Store(store.content, store.counters, *store.waiting)
            .Apply(std::move(request), PushFence(store.generation, 1), reply);
        std::unique_lock lock(mu);
        if (!answered.wait_for(lock, std::chrono::seconds(20), [&] { return values; })) ++stuck;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(stuck == 0);
  CHECK(store.content.Find(0)->GetCounts().updates == kLanes * kRounds);
  CHECK(store.waiting->size() == 0);
}

TEST_CASE("a generation that begins ends the pulls of those before it, and none of its own") {
  LaneStore store;
  const auto old = store.Pull(1);
  store.generation = 2;
  std::shared_ptr<LaneStore::Answer> own = std::make_shared<LaneStore::Answer>();
  Store(store.content, store.counters, *store.waiting)
      .Apply(LaneStore::PullOf(1), PushFence(store.generation, 2),
             [own](absl::StatusOr<DecodedReply> reply) {
               ++own->count;
               own->reply = std::move(reply);
             });
  store.waiting->EndOvertaken(absl::AbortedError("generation 2"));
  CHECK(absl::IsAborted(old->reply.status()));
  CHECK(own->count == 0);
  CHECK(store.waiting->size() == 1);
}

}  // namespace
}  // namespace paracord
