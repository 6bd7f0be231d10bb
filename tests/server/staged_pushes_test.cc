// Gradients that arrive before the exchange of their batch.
#include "store/staged_pushes.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/parts.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// A push in two calls: the pieces of the `early` partitions, then the exchange without them.
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

std::shared_ptr<FakeCall> Stage(TestPs& ps, DecodedRequest request, uint64_t lost_bytes = 0) {
  if (request.header.has_staged()) {
    request.header.mutable_staged()->set_bytes(PieceBytes(request.pieces) + lost_bytes);
  }
  const absl::Cord bytes = Joined(EncodeExchange(request.header, request.pieces));
  auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kStage, bytes, call);
  return call;
}

TEST_CASE("what came early and what the exchange brings are one push") {
  TestPs ps;
  ps.Ready();
  const Halves halves = Cut(ps.PushOf(0, 0, 2.0f), {0, 2}, "a");
  const auto call = Stage(ps, halves.staged);
  CHECK(call->answered == 1);
  CHECK(call->reply.ok());
  CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
  const auto reply = ps.Exchange(halves.exchange);
  REQUIRE(reply.ok());
  CHECK(reply->State(0).outcome() == PUSH_APPLIED);
  const Pulled pulled = ps.PullAll();
  CHECK(pulled.values.at(0) == Floats(9, -2.0f));
  CHECK(pulled.values.at(1) == Floats(6, -2.0f));
  CHECK(pulled.values.at(2) == Floats(2, -2.0f));
  // A staged push is used once.
  CHECK(absl::IsNotFound(ps.Exchange(halves.exchange).status()));
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
    CHECK(absl::IsNotFound(reply.status()));
    CHECK(std::string(reply.status().message()).find("1 of 2 calls") != std::string::npos);
    CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
    REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());  // the whole push again
  }
  CHECK(ps.PullAll().values.at(1) == Floats(6, -2.0f));
}

TEST_CASE("nobody's gradients but those that an exchange names are used") {
  TestPs ps;
  ps.Ready();
  const Halves old = Cut(ps.PushOf(0, 0, 100.0f), {0}, "old");
  const Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, "new");
  const Halves other = Cut(ps.PushOf(0, 0, 50.0f), {0}, "other", "worker:1");
  Stage(ps, old.staged);
  Stage(ps, other.staged);
  CHECK(absl::IsNotFound(ps.Exchange(halves.exchange).status()));
  Stage(ps, halves.staged);  // replaces the worker's staged push
  CHECK(absl::IsNotFound(ps.Exchange(old.exchange).status()));
  REQUIRE(ps.Exchange(halves.exchange).ok());
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.0f));
}

TEST_CASE("a new generation has nothing of the one before") {
  TestPs ps;
  ps.Ready();
  Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, "a");
  CHECK(Stage(ps, halves.staged)->reply.ok());
  REQUIRE(ps.Adopt(2).ok());
  halves.exchange.header.mutable_fence()->set_generation(2);
  CHECK(absl::IsNotFound(ps.Exchange(halves.exchange).status()));
}

TEST_CASE("what nobody came for is let go of, also where there is room") {
  TestModel model;
  model.variables = {TestVariable("dense/kernel", {600, 500})};
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, 600)};
  TestPs ps(model);
  ps.Ready();
  auto gradient = std::make_shared<Floats>(600 * 500, 1.0f);
  const std::weak_ptr<Floats> watched = gradient;
  Halves halves = Cut(ps.PushOf(0, 0, 1.0f), {0}, "a");
  const absl::string_view bytes(reinterpret_cast<const char*>(gradient->data()), 1200000);
  halves.staged.pieces[0].data = absl::MakeCordFromExternal(bytes, [held = std::move(gradient)] {});
  CHECK(Stage(ps, halves.staged)->reply.ok());
  halves.staged.pieces.clear();
  ps.loop.Advance(29000);
  CHECK_FALSE(watched.expired());
  ps.loop.Advance(17000);  // the ps looks for abandoned pushes every 15 s
  CHECK(watched.expired());
  CHECK(absl::IsNotFound(ps.Exchange(halves.exchange).status()));
}

TEST_CASE("there is room for so much, and what nobody came for makes room") {
  TestPs ps(TestModel(), "", 0, PinnedBytes::kUnlimited, 2000);  // two pushes are larger
  ps.Ready();
  const auto status = [&](const Halves& halves) {
    const auto call = Stage(ps, halves.staged);
    CHECK(call->answered == 1);
    return call->reply.status();
  };
  const std::vector<uint32_t> all = {0, 1, 2};
  CHECK(status(Cut(ps.PushOf(0, 0, 1.0f), all, "a")).ok());
  CHECK(absl::IsResourceExhausted(status(Cut(ps.PushOf(0, 0, 1.0f), all, "b", "worker:1"))));
  // The worker's next push takes the place of its last one.
  const Halves next = Cut(ps.PushOf(0, 0, 1.0f), all, "c");
  CHECK(status(next).ok());
  REQUIRE(ps.Exchange(next.exchange).ok());
  const Halves other = Cut(ps.PushOf(0, 1, 1.0f), all, "d", "worker:1");
  CHECK(status(other).ok());
  ps.loop.Advance(29000);
  CHECK(absl::IsResourceExhausted(status(Cut(ps.PushOf(0, 1, 1.0f), all, "e"))));
  ps.loop.Advance(17000);
  const Halves late = Cut(ps.PushOf(0, 1, 1.0f), all, "f");
  CHECK(status(late).ok());
  CHECK(absl::IsNotFound(ps.Exchange(other.exchange).status()));
  CHECK(ps.Exchange(late.exchange).ok());
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
      {"staged by nobody", [](Halves& h) { h.exchange.header.mutable_staged()->set_calls(0); },
       "staged by nobody"},
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
    Stage(ps, halves.staged);
    const auto reply = ps.Exchange(halves.exchange);
    CHECK(absl::IsInvalidArgument(reply.status()));
    CHECK(std::string(reply.status().message()).find(one.says) != std::string::npos);
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
  CHECK(absl::IsInvalidArgument(refused([](auto& h) { h.set_worker(std::string(257, 'w')); })));
  CHECK(absl::IsInvalidArgument(
      refused([](auto& h) { h.mutable_staged()->set_id(std::string(257, 'i')); })));
  DecodedRequest nothing = halves.staged;
  nothing.pieces.clear();
  CHECK(absl::IsInvalidArgument(Stage(ps, nothing)->reply.status()));
  CHECK(absl::IsInvalidArgument(Stage(ps, halves.staged, /*lost_bytes=*/1)->reply.status()));
  const auto garbage = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kStage, absl::Cord("\xff\xff"), garbage);
  CHECK(absl::IsInvalidArgument(garbage->reply.status()));
}

}  // namespace
}  // namespace paracord
