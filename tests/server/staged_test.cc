// Gradients that come before the exchange of their batch.
#include "server/staged.h"

#include <limits>

#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

constexpr uint64_t kAllBytes = 17 * sizeof(float);  // of a push to every trained partition

// A push cut in two: the pieces of `early` partitions, and the exchange without them.
struct Halves {
  DecodedRequest staged, exchange;
};

Halves Cut(DecodedRequest push, const std::vector<uint32_t>& early, const std::string& id,
           const std::string& worker = "worker:0") {
  Halves halves{.staged = {}, .exchange = {}};
  *halves.staged.header.mutable_fence() = push.header.fence();
  halves.staged.header.set_worker(worker);
  halves.staged.header.mutable_staged()->set_id(id);
  for (PieceView& piece : push.pieces) {
    const bool is_early = std::ranges::find(early, piece.partition) != early.end();
    (is_early ? halves.staged : halves.exchange).pieces.push_back(std::move(piece));
  }
  halves.exchange.header = std::move(push.header);
  halves.exchange.header.set_worker(worker);
  halves.exchange.header.mutable_staged()->set_id(id);
  halves.exchange.header.mutable_staged()->set_calls(1);
  return halves;
}

std::shared_ptr<FakeCall> Stage(TestPs& ps, const DecodedRequest& request) {
  absl::Cord bytes;
  for (const absl::Cord& part : EncodeExchange(request.header, request.pieces)) bytes.Append(part);
  auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kStage, bytes, call);
  return call;
}

TEST_CASE("what came early and what the exchange brings are one push") {
  TestPs ps;
  ps.Ready();
  const Halves halves = Cut(ps.PushOf(0, 0, 2.0f), {0, 2}, "a");
  const auto call = Stage(ps, halves.staged);
  CHECK(call->answered == 0);  // kept
  CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
  const auto reply = ps.Exchange(halves.exchange);
  REQUIRE(reply.ok());
  CHECK(reply->State(0).outcome() == PUSH_APPLIED);
  CHECK(call->answered == 1);
  CHECK(call->reply.ok());
  const Pulled pulled = ps.PullAll();
  CHECK(pulled.values.at(0) == Floats(9, -2.0f));
  CHECK(pulled.values.at(1) == Floats(6, -2.0f));
  CHECK(pulled.values.at(2) == Floats(2, -2.0f));
  // It is used once.
  CHECK(absl::IsUnavailable(ps.Exchange(halves.exchange).status()));
}

TEST_CASE("several calls stage one push, and it is only used if all have come") {
  TestPs ps;
  ps.Ready();
  for (const bool all : {false, true}) {
    const uint32_t batch = all ? 1 : 0;
    Halves halves = Cut(ps.PushOf(0, batch, 1.0f), {0, 1}, absl::StrCat("push ", batch));
    DecodedRequest second = halves.staged;
    second.pieces.erase(second.pieces.begin());
    halves.staged.pieces.pop_back();
    halves.exchange.header.mutable_staged()->set_calls(2);
    const auto first_call = Stage(ps, halves.staged);
    if (all) Stage(ps, second);
    const auto reply = ps.Exchange(halves.exchange);
    if (all) {
      REQUIRE(reply.ok());
      CHECK(reply->State(1).outcome() == PUSH_APPLIED);
      continue;
    }
    CHECK(absl::IsUnavailable(reply.status()));
    CHECK(std::string(reply.status().message()).find("1 of 2 calls") != std::string::npos);
    CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
    REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());  // repeated whole
  }
  CHECK(ps.PullAll().values.at(1) == Floats(6, -2.0f));
}

TEST_CASE("nobody's gradients but those that an exchange names are used") {
  TestPs ps;
  ps.Ready();
  const Halves old = Cut(ps.PushOf(0, 0, 100.0f), {0}, "old");
  const Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, "new");
  const Halves other = Cut(ps.PushOf(0, 0, 50.0f), {0}, "other", "worker:1");
  const auto old_call = Stage(ps, old.staged);
  const auto other_call = Stage(ps, other.staged);
  CHECK(absl::IsUnavailable(ps.Exchange(halves.exchange).status()));
  const auto call = Stage(ps, halves.staged);  // instead of the old one of this worker
  CHECK(old_call.use_count() == 1);
  CHECK(other_call->answered == 0);
  CHECK(other_call.use_count() == 2);
  CHECK(absl::IsUnavailable(ps.Exchange(old.exchange).status()));
  REQUIRE(ps.Exchange(halves.exchange).ok());
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.0f));
  CHECK(call->answered == 1);
}

TEST_CASE("a caller that goes away takes back all of its push") {
  TestPs ps;
  ps.Ready();
  const Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0, 1}, "a");
  const auto call = Stage(ps, halves.staged);
  CHECK(call.use_count() == 2);
  call->Cancel();
  CHECK(call.use_count() == 1);
  CHECK(absl::IsUnavailable(ps.Exchange(halves.exchange).status()));
}

TEST_CASE("there is room for so much, and what has no room comes with the exchange") {
  TestPs ps(TestModel(), "", 0, PinnedBytes::kUnlimited, kAllBytes);
  ps.Ready();
  const std::vector<uint32_t> all = {0, 1, 2};
  const auto first = Stage(ps, Cut(ps.PushOf(0, 0, 1.0f), all, "a").staged);
  CHECK(first->answered == 0);
  const auto second = Stage(ps, Cut(ps.PushOf(0, 0, 1.0f), {2}, "b", "worker:1").staged);
  CHECK(second->answered == 1);
  CHECK(absl::IsResourceExhausted(second->reply.status()));
  // Its own next push takes the place.
  const Halves next = Cut(ps.PushOf(0, 0, 1.0f), all, "c");
  const auto third = Stage(ps, next.staged);
  CHECK(third->answered == 0);
  REQUIRE(ps.Exchange(next.exchange).ok());
  const auto fourth = Stage(ps, Cut(ps.PushOf(0, 1, 1.0f), all, "d", "worker:1").staged);
  CHECK(fourth->answered == 0);
}

TEST_CASE("what is staged is checked with the push, whole") {
  TestPs ps;
  ps.Ready();
  struct Case {
    const char* what;
    std::function<void(Halves&)> spoil;
    const char* says;
  };
  const Case cases[] = {
      {"not finite",
       [](Halves& h) {
         h.staged.pieces[0].data = CordOf(Floats(9, std::numeric_limits<float>::infinity()));
       },
       "not finite"},
      {"too short", [](Halves& h) { h.staged.pieces[0].data = CordOf(Floats(8, 1.0f)); },
       "pieces for 32 of 36 bytes"},
      {"twice",
       [](Halves& h) {
         h.exchange.pieces.push_back({0, 0, CordOf(Floats(9, 1.0f))});
       },
       "a piece at offset 0 where 36 was expected"},
      {"unknown partition", [](Halves& h) { h.staged.pieces[0].partition = 77; }, "pieces"},
      {"without a batch",
       [](Halves& h) {
         h.exchange.header.clear_batch();
         h.exchange.header.clear_push();
         h.exchange.pieces.clear();
       },
       "a push without a batch"},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, one.what);
    one.spoil(halves);
    const auto call = Stage(ps, halves.staged);
    const auto reply = ps.Exchange(halves.exchange);
    CHECK(absl::IsInvalidArgument(reply.status()));
    CHECK(std::string(reply.status().message()).find(one.says) != std::string::npos);
    CHECK(call->answered == 1);
    CHECK(ps.PullAll().values.at(1) == Floats(6, 0.0f));
  }
}

TEST_CASE("staging is for who is let in, and for pieces alone") {
  TestPs ps;
  ps.Ready();
  Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, "a");
  const auto refused = [&](const std::function<void(ExchangeRequest&)>& spoil) {
    DecodedRequest request = halves.staged;
    spoil(request.header);
    const auto call = Stage(ps, request);
    CHECK(call->answered == 1);
    return call->reply.status();
  };
  CHECK(absl::IsAborted(refused([](auto& h) { h.mutable_fence()->set_boot_id("another life"); })));
  CHECK(absl::IsAborted(refused([](auto& h) { h.mutable_fence()->set_generation(7); })));
  CHECK(absl::IsFailedPrecondition(
      refused([](auto& h) { h.mutable_fence()->set_protocol(kProtocol - 1); })));
  CHECK(absl::IsInvalidArgument(refused([](auto& h) { h.clear_staged(); })));
  CHECK(absl::IsInvalidArgument(refused([](auto& h) { h.mutable_batch(); })));
  CHECK(absl::IsInvalidArgument(refused([](auto& h) { h.set_rejected(true); })));
  CHECK(absl::IsInvalidArgument(refused([](auto& h) { h.add_pull(); })));
  const auto garbage = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kStage, absl::Cord("\xff\xff"), garbage);
  CHECK(absl::IsInvalidArgument(garbage->reply.status()));
}

TEST_CASE("a ps that leaves lets go of what was staged") {
  std::shared_ptr<FakeCall> call;
  {
    TestPs ps;
    ps.Ready();
    call = Stage(ps, Cut(ps.PushOf(0, 0, 1.0f), {0}, "a").staged);
    CHECK(call.use_count() == 2);
  }
  CHECK(call.use_count() == 1);
}

}  // namespace
}  // namespace paracord
