// Pulls that wait for the pushes of other workers, through calls.
#include "store/waiting_pulls.h"

#include <utility>
#include <vector>

#include "common/memory_budget.h"
#include "monitor/metric_set.h"
#include "tests/parts.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// A model with ten lanes of ten batches.
TestModel ModelOfLanes() {
  TestModel model;
  model.plan.set_lanes(10);
  return model;
}

struct PsOfLanes {
  using CallPtr = std::shared_ptr<FakeCall>;

  explicit PsOfLanes(std::shared_ptr<MemoryBudget> memory = nullptr)
      : ps(ModelOfLanes(), "", 0, PinnedBytes::kUnlimited, uint64_t{1} << 30, /*stay=*/true,
           std::move(memory)) {
    ps.Ready();
  }
  CallPtr Send(const DecodedRequest& request) {
    auto call = std::make_shared<FakeCall>();
    ps.ps->Handle(method::kExchange, Joined(EncodeExchange(request.header, request.pieces)), call);
    ps.loop.RunPosted();
    return call;
  }
  DecodedRequest PullOf(uint64_t state, uint32_t wait_ms = 500) {
    DecodedRequest request;
    *request.header.mutable_fence() = ps.MakeFence();
    AddState(request, state, wait_ms);
    return request;
  }
  void AddState(DecodedRequest& request, uint64_t state, uint32_t wait_ms = 500) const {
    request.header.set_state(state);
    request.header.set_wait_ms(wait_ms);
    ps.AddPulls(request);
  }
  CallPtr Pull(uint64_t state) { return Send(PullOf(state)); }
  void PushRound(uint32_t round) {
    for (uint64_t lane = 0; lane < 10; ++lane) {
      REQUIRE(ps.Exchange(ps.PushOf(lane, round, 1.0f)).ok());
    }
  }
  uint64_t Waiting() { return ps.Describe().waiting_pulls(); }

  TestPs ps;
};

bool HasValues(const PsOfLanes::CallPtr& call) {
  if (call->answered != 1 || !call->reply.ok()) return false;
  const auto reply = DecodeExchangeReply(*call->reply);
  return reply.ok() && !reply->header.waits() && !reply->pieces.empty();
}

TEST_CASE("a pull waits for other workers, and is counted where people look") {
  PsOfLanes test;
  const auto pull = test.Pull(1);
  CHECK(pull->answered == 0);
  CHECK(test.Waiting() == 1);
  MetricSet metrics;
  test.ps.ps->AddMetrics(metrics);
  CHECK(metrics.Text().find("\nparacord_ps_waiting_pulls 1\n") != std::string::npos);
  CHECK(test.ps.Describe().waiting_exchanges() == 0);
  test.PushRound(0);
  CHECK(HasValues(pull));
  CHECK(test.Waiting() == 0);

  DecodedRequest both = test.ps.PushOf(0, 1, 1.0f);
  test.AddState(both, 2, 3'600'000);
  const auto over = test.Send(both);
  test.ps.loop.Advance(499);
  CHECK(over->answered == 0);
  test.ps.loop.Advance(1);
  REQUIRE(over->answered == 1);
  const ExchangeReply reply = DecodeExchangeReply(*over->reply)->header;
  CHECK(reply.waits());
  CHECK(reply.missing_size() == 9);
  CHECK(reply.missing(0) == 1);
  REQUIRE(reply.partitions_size() == 3);
  CHECK(reply.partitions(0).outcome() == PUSH_APPLIED);
}

TEST_CASE("values that waited say how many updates came after their push") {
  PsOfLanes test;
  const auto push = [&](uint64_t lane) {
    DecodedRequest both = test.ps.PushOf(lane, 0, 1.0f);
    test.AddState(both, 1);
    return test.Send(both);
  };
  const auto first = push(0);
  for (uint64_t lane = 1; lane < 9; ++lane) CHECK(push(lane)->answered == 0);
  const auto last = push(9);
  REQUIRE((HasValues(first) && HasValues(last)));
  const ExchangeReply waited = DecodeExchangeReply(*first->reply)->header;
  for (const PartitionState& of : waited.partitions()) {
    CHECK(of.entered() == (of.outcome() == PUSH_APPLIED ? 9 : 0));
  }
  const ExchangeReply at_once = DecodeExchangeReply(*last->reply)->header;
  for (const PartitionState& of : at_once.partitions()) {
    CHECK(of.entered() == 0);
  }
}

TEST_CASE("pulls that wait end with their generation, with a Load, with the job and with the ps") {
  PsOfLanes test;
  const auto adopted = test.Pull(1);
  CHECK(test.ps.Adopt(2).ok());
  CHECK(absl::IsAborted(adopted->reply.status()));
  CHECK(adopted->reply.status().message() == "generation 2 of coordinator c1 took over");
  const auto reloaded = test.Pull(1);
  CHECK(reloaded->answered == 0);
  CHECK(test.ps.Load().ok());
  CHECK(absl::IsAborted(reloaded->reply.status()));

  const auto ended = test.Pull(1);
  FinishRequest finish;
  *finish.mutable_fence() = test.ps.MakeFence();
  finish.set_coordinator_boot_id("c1");
  CHECK(test.ps.Call<FinishReply>(method::kFinish, finish).ok());
  CHECK(absl::IsUnavailable(ended->reply.status()));
  CHECK(test.ps.Adopt(3).ok());
  CHECK(test.ps.Load().ok());
  const auto closed = test.Pull(1);
  CHECK(closed->answered == 0);
  test.ps.ps.reset();
  CHECK(absl::IsUnavailable(closed->reply.status()));
  test.ps.loop.Advance(10000);
  for (const auto& call : {adopted, reloaded, ended, closed}) CHECK(call->answered == 1);
}

TEST_CASE("a pull whose connection goes away is forgotten") {
  PsOfLanes test;
  const auto gone = test.Pull(1);
  const auto stays = test.Pull(1);
  gone->Cancel();
  CHECK(test.Waiting() == 1);
  test.PushRound(0);
  CHECK(gone->answered == 0);
  CHECK(HasValues(stays));
}

TEST_CASE("so many pulls wait and no more, and what they take counts among requests") {
  const auto memory = std::make_shared<MemoryBudget>();
  PsOfLanes test(memory);
  std::vector<PsOfLanes::CallPtr> calls;
  const DecodedRequest pull = test.PullOf(1);
  for (size_t i = 0; i < WaitingPulls::kPullsMax; ++i) calls.push_back(test.Send(pull));
  CHECK(test.Waiting() == WaitingPulls::kPullsMax);
  CHECK(absl::IsResourceExhausted(test.Send(pull)->reply.status()));
  CHECK(memory->requests()->bytes() > 1024 * static_cast<int64_t>(WaitingPulls::kPullsMax));
  // A push is served meanwhile.
  test.PushRound(0);
  for (const auto& call : calls) CHECK(HasValues(call));
  CHECK(memory->requests()->bytes() == 0);
}

// Sends a push with a pull of the next state, and counts its bytes as requests, as a network does.
PsOfLanes::CallPtr SendCounted(PsOfLanes& test, MemoryBudget& memory, uint64_t bytes) {
  DecodedRequest push = test.ps.PushOf(0, 0, 1.0f);
  test.AddState(push, 1);
  const auto call = std::make_shared<FakeCall>();
  memory.requests()->Add(bytes);
  call->on_release = [&memory, bytes] { memory.requests()->Subtract(bytes); };
  test.ps.ps->Handle(method::kExchange, Joined(EncodeExchange(push.header, push.pieces)), call);
  test.ps.loop.RunPosted();
  return call;
}

TEST_CASE(
    "a push that is larger than all requests may be waits all the same, and without its body") {
  MemoryBudget::Caps caps;
  caps.requests = 8192;
  const auto memory = std::make_shared<MemoryBudget>(MemoryBudget::kUnlimited, caps);
  PsOfLanes test(memory);
  const auto call = SendCounted(test, *memory, 1 << 20);
  CHECK(call->answered == 0);
  CHECK(test.Waiting() == 1);
  CHECK(memory->requests()->bytes() < 8192);
  test.PushRound(0);
  CHECK(HasValues(call));
  CHECK(memory->requests()->bytes() == 0);
}

TEST_CASE("a push whose pull finds no room to wait says what became of it") {
  MemoryBudget::Caps caps;
  caps.requests = 100;
  const auto memory = std::make_shared<MemoryBudget>(MemoryBudget::kUnlimited, caps);
  PsOfLanes test(memory);
  CHECK(absl::IsResourceExhausted(test.Pull(1)->reply.status()));
  const auto call = SendCounted(test, *memory, 50);
  REQUIRE(call->reply.ok());
  const ExchangeReply reply = DecodeExchangeReply(*call->reply)->header;
  CHECK(reply.waits());
  REQUIRE(reply.partitions_size() == 3);
  CHECK(reply.partitions(0).outcome() == PUSH_APPLIED);
}

TEST_CASE("the time that a pull waits is no time of its exchange") {
  PsOfLanes test;
  const auto count = [&](const std::string& name) {
    MetricSet metrics;
    test.ps.ps->AddMetrics(metrics);
    const std::string text = metrics.Text();
    const size_t at = text.find("\n" + name + "_count ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + name.size() + 8));
  };
  const int before = count("paracord_ps_exchange_seconds");
  CHECK(test.Pull(0)->answered == 1);
  CHECK(count("paracord_ps_exchange_seconds") == before + 1);
  CHECK(count("paracord_ps_waited_seconds") == 0);
  CHECK(test.Pull(1)->answered == 0);
  test.ps.loop.Advance(500);
  CHECK(count("paracord_ps_exchange_seconds") == before + 2);
  CHECK(count("paracord_ps_waited_seconds") == 1);
}

TEST_CASE("a state is refused in a job without lanes, and behind the end of the job") {
  TestPs async;
  async.Ready();
  DecodedRequest push = async.PushOf(0, 0, 1.0f);
  push.header.set_state(0);
  CHECK(absl::IsInvalidArgument(async.Exchange(push).status()));
  CHECK(async.Describe().partitions(0).updates() == 0);
  PsOfLanes test;
  CHECK(test.Pull(10 * 1000)->answered == 0);
  CHECK(absl::IsInvalidArgument(test.Pull(10 * 1000 + 1)->reply.status()));
}

}  // namespace
}  // namespace paracord
