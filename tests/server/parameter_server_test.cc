#include "server/parameter_server.h"

#include <functional>
#include <limits>

#include "storage/claim.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

FinishRequest FinishOrder(TestPs& ps, int code) {
  FinishRequest request;
  *request.mutable_fence() = ps.MakeFence();
  request.set_coordinator_boot_id("c1");
  request.set_exit_code(code);
  return request;
}

bool Contains(const absl::Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("a ps obeys only a higher generation, and one coordinator in each") {
  TestPs ps;
  CHECK(ps.Describe().generation() == 0);
  CHECK(ps.Describe().ps() == 0);
  CHECK(absl::IsInvalidArgument(ps.Adopt(0)));
  CHECK(absl::IsInvalidArgument(ps.Adopt(UINT64_MAX)));
  CHECK(absl::IsInvalidArgument(ps.Adopt(kGenerationMax)));
  CHECK(ps.Adopt(3, "c1").ok());
  CHECK(ps.Adopt(3, "c1").ok());  // repeats the order
  const absl::Status other = ps.Adopt(3, "c2");
  CHECK(absl::IsAborted(other));
  CHECK(Contains(other, "c1"));
  CHECK(Contains(other, "c2"));
  CHECK(absl::IsAborted(ps.Adopt(2, "c1")));
  CHECK(ps.Describe().coordinator_boot_id() == "c1");
  CHECK(ps.Adopt(4, "c2").ok());
  CHECK(ps.Describe().coordinator_boot_id() == "c2");

  AdoptRequest wrong = ps.AdoptOrder(5);
  wrong.set_boot_id("another life");
  CHECK(absl::IsAborted(ps.Call<PsDescription>(method::kAdopt, wrong).status()));
  wrong = ps.AdoptOrder(5);
  wrong.set_protocol(kProtocol + 1);
  CHECK(absl::IsFailedPrecondition(ps.Call<PsDescription>(method::kAdopt, wrong).status()));
  CHECK(ps.Describe().generation() == 4);
}

TEST_CASE("a generation far above its own is obeyed only where DIR has its claim") {
  TestPs ps;
  CHECK(ps.Adopt(1000).ok());
  const absl::Status far = ps.Adopt(kGenerationMax - 1);
  CHECK(absl::IsFailedPrecondition(far));
  CHECK(Contains(far, "generation-4611686018427387903"));
  CHECK(ps.Describe().generation() == 1000);
  REQUIRE(ps.files.WriteAtomic(ps.dir() + "/generation-123456789", "").ok());
  CHECK(ps.Adopt(123456789).ok());
  CHECK(ps.Describe().generation() == 123456789);
}

TEST_CASE("every field of the fence is compared, and the message says which differed") {
  TestPs ps;
  ps.Ready();
  struct Case {
    std::function<void(Fence&)> change;
    absl::StatusCode code;
    const char* named;
  };
  const std::vector<Case> cases = {
      {[](Fence& f) { f.set_run_id("another"); }, absl::StatusCode::kAborted, "run"},
      {[](Fence& f) { f.set_generation(2); }, absl::StatusCode::kAborted, "generation"},
      {[](Fence& f) { f.set_generation(0); }, absl::StatusCode::kAborted, "generation"},
      {[](Fence& f) { f.set_boot_id("another"); }, absl::StatusCode::kAborted, "boot id"},
      {[](Fence& f) { f.set_protocol(kProtocol + 1); }, absl::StatusCode::kFailedPrecondition,
       "protocol"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.named);
    DecodedRequest push = ps.PushOf(0, 0, 1.0f);
    c.change(*push.header.mutable_fence());
    SnapshotRequest snapshot = ps.SnapshotOrder(1);
    c.change(*snapshot.mutable_fence());
    PsHoldRequest hold = HoldOrder(ps);
    c.change(*hold.mutable_fence());
    FinishRequest finish = FinishOrder(ps, 0);
    c.change(*finish.mutable_fence());
    for (const absl::Status& status :
         {ps.Exchange(push).status(), ps.Call<SnapshotReply>(method::kSnapshot, snapshot).status(),
          ps.Call<PsHoldReply>(method::kPsHold, hold).status(),
          ps.Call<FinishReply>(method::kFinish, finish).status()}) {
      CHECK(status.code() == c.code);
      CHECK(Contains(status, c.named));
    }
  }
  CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
  CHECK(ps.exits.empty());
  // A ps obeys only the coordinator that adopted it.
  CHECK(absl::IsAborted(ps.Call<PsHoldReply>(method::kPsHold, HoldOrder(ps, "c2")).status()));
  LoadRequest load = ps.LoadOrder();
  load.set_coordinator_boot_id("c2");
  CHECK(absl::IsAborted(ps.Call<PsDescription>(method::kLoad, load).status()));
}

TEST_CASE("an empty ps serves nothing, and says whether it will") {
  TestPs ps;
  CHECK(absl::IsAborted(ps.Exchange(ps.PushOf(0, 0, 1.0f)).status()));
  REQUIRE(ps.Adopt(1).ok());
  CHECK(absl::IsFailedPrecondition(ps.Exchange(ps.PushOf(0, 0, 1.0f)).status()));
  CHECK(absl::IsFailedPrecondition(
      ps.Call<SnapshotReply>(method::kSnapshot, ps.SnapshotOrder(1)).status()));
  ps.executor.set_at_once(false);
  const auto load = ps.Send(method::kLoad, ps.LoadOrder());
  CHECK(absl::IsUnavailable(ps.Exchange(ps.PushOf(0, 0, 1.0f)).status()));
  CHECK(load->answered == 0);
  ps.executor.RunOne();
  ps.loop.RunPosted();
  CHECK(ps.Answer<PsDescription>(load)->run_id() == TestPs::kRun);
  CHECK(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
}

TEST_CASE("a repeated Load joins the one that runs, and a late one changes nothing") {
  TestPs ps;
  REQUIRE(ps.Adopt(1).ok());
  const LoadRequest order = ps.LoadOrder();
  ps.executor.set_at_once(false);
  const auto first = ps.Send(method::kLoad, order);
  const auto second = ps.Send(method::kLoad, order);
  REQUIRE(ps.executor.RunOne());
  ps.loop.RunPosted();
  CHECK_FALSE(ps.executor.RunOne());
  CHECK(ps.Answer<PsDescription>(first).ok());
  CHECK(ps.Answer<PsDescription>(second).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());

  const auto late = ps.Call<PsDescription>(method::kLoad, order);
  REQUIRE(late.ok());
  CHECK(late->partitions(0).updates() == 1);
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.0f));
}

TEST_CASE(
    "a ps that has another DIR than the coordinator says which, and loads when it has the same") {
  TestPs ps;
  REQUIRE(ps.Adopt(3, "c3").ok());
  LoadRequest order = ps.LoadOrder();
  order.set_claim(ClaimText(3, "c3"));
  const std::string claim = ps.dir() + "/generation-3";
  for (const bool of_another_job : {false, true}) {
    if (of_another_job) REQUIRE(ps.files.CreateExclusive(claim, ClaimText(3, "other")).ok());
    const auto other = ps.Call<PsDescription>(method::kLoad, order);
    REQUIRE(other.ok());
    CHECK(other->other_dir() == ps.dir());
    CHECK(other->partitions_size() == 0);
    CHECK_FALSE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  }
  REQUIRE(ps.files.WriteAtomic(claim, order.claim()).ok());
  const auto same = ps.Call<PsDescription>(method::kLoad, order);
  REQUIRE(same.ok());
  CHECK(same->other_dir().empty());
  CHECK(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
}

TEST_CASE("a Load is dropped when the generation is raised under it") {
  TestPs ps;
  REQUIRE(ps.Adopt(1).ok());
  ps.executor.set_at_once(false);
  const auto load = ps.Send(method::kLoad, ps.LoadOrder());
  REQUIRE(ps.Adopt(2, "c2").ok());
  CHECK(absl::IsAborted(ps.Answer<PsDescription>(load).status()));
  ps.executor.RunOne();
  ps.loop.RunPosted();
  CHECK(load->answered == 1);
  CHECK(ps.Describe().run_id().empty());
  const auto again = ps.Send(method::kLoad, ps.LoadOrder());
  ps.executor.RunOne();
  ps.loop.RunPosted();
  CHECK(ps.Answer<PsDescription>(again)->loaded_generation() == 2);
}

TEST_CASE("raising the generation keeps what is held; a Load in it replaces that") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  const DecodedRequest stale = ps.PushOf(0, 1, 1.0f);
  REQUIRE(ps.Adopt(2, "c2").ok());
  CHECK(absl::IsAborted(ps.Exchange(stale).status()));
  CHECK(ps.Describe().loaded_generation() == 1);
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.0f));
  REQUIRE(ps.Load().ok());
  CHECK(ps.Describe().loaded_generation() == 2);
  CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
  CHECK(ps.Describe().partitions(0).ledger().applied() == 0);
}

struct BadLoad {
  const char* what;
  std::function<void(LoadRequest&)> damage;
  const char* named;
};

std::vector<BadLoad> BadLoads() {
  return {
      {"no plan", [](auto& r) { r.clear_plan(); }, "records"},
      {"job", [](auto& r) { r.set_job_json("{"); }, ""},
      {"variable twice", [](auto& r) { r.mutable_variables(1)->set_name("dense/kernel"); },
       "dense/kernel"},
      {"dtype", [](auto& r) { r.mutable_variables(0)->set_dtype(DTYPE_UNSPECIFIED); },
       "dense/kernel"},
      {"dimension 0", [](auto& r) { r.mutable_variables(0)->set_shape(1, 0); }, "dense/kernel"},
      {"overflow",
       [](auto& r) { r.mutable_variables(0)->set_shape(1, std::numeric_limits<uint64_t>::max()); },
       "dense/kernel"},
      {"too large", [](auto& r) { r.mutable_variables(0)->set_shape(1, 1 << 25); }, "max_size"},
      {"rows", [](auto& r) { r.mutable_partitions(0)->set_row_end(6); }, "dense/kernel/part_0"},
      {"no rows", [](auto& r) { r.mutable_partitions(0)->set_row_end(0); }, "dense/kernel/part_0"},
      {"variable", [](auto& r) { r.mutable_partitions(0)->set_variable(3); }, "partition 0"},
      {"name", [](auto& r) { r.mutable_partitions(0)->set_name("x"); }, "partition 0"},
      {"id twice", [](auto& r) { r.mutable_partitions(1)->set_id(0); }, "partition 0"},
      {"initializer",
       [](auto& r) { r.mutable_variables(0)->mutable_initializer()->set_name("magic"); }, "magic"},
      {"checkpoint's name", [](auto& r) { r.set_checkpoint("../../etc"); }, "etc"},
  };
}

TEST_CASE("a Load that makes no sense is refused and leaves the ps empty") {
  for (const BadLoad& bad : BadLoads()) {
    CAPTURE(bad.what);
    TestPs ps;
    ps.Ready();
    REQUIRE(ps.Adopt(2).ok());
    LoadRequest order = ps.LoadOrder();
    bad.damage(order);
    const absl::Status status = ps.Call<PsDescription>(method::kLoad, order).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Contains(status, bad.named));
    CHECK(ps.Describe().run_id().empty());
    CHECK(ps.Load().ok());  // the ps obeys a sound order afterwards
  }
}

TEST_CASE("a ps may hold no partition at all") {
  TestModel model;
  model.partitions.clear();
  TestPs ps(model);
  ps.Ready();
  CHECK(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  CHECK(ps.Call<SnapshotReply>(method::kSnapshot, ps.SnapshotOrder(1)).ok());
}

TEST_CASE("Hold is parked until the ps drains, the coordinator changes, or it goes away") {
  TestPs ps;
  ps.Ready();
  const auto first = ps.Send(method::kPsHold, HoldOrder(ps));
  CHECK(first->answered == 0);
  REQUIRE(ps.Adopt(2, "c2").ok());
  CHECK(absl::IsAborted(ps.Answer<PsHoldReply>(first).status()));

  const auto second = ps.Send(method::kPsHold, HoldOrder(ps, "c2"));
  second->Cancel();
  CHECK(second.use_count() == 1);  // the ps has dropped the call

  const auto third = ps.Send(method::kPsHold, HoldOrder(ps, "c2"));
  ps.ps->Drain();
  CHECK(third->answered == 0);
  ps.loop.Advance(100);
  CHECK(ps.Answer<PsHoldReply>(third)->draining());
  CHECK(ps.Describe().draining());
  const auto fourth = ps.Send(method::kPsHold, HoldOrder(ps, "c2"));
  CHECK(fourth->answered == 0);  // c2 has been told; the call ends when the ps exits
  REQUIRE(ps.Adopt(3, "c3").ok());
  CHECK(ps.Call<PsHoldReply>(method::kPsHold, HoldOrder(ps, "c3"))->draining());
}

TEST_CASE("a ps that drains leaves when told, or when its time is over") {
  {
    TestPs ps;
    ps.Ready();
    const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
    ps.ps->Drain();
    ps.loop.Advance(24999);
    CHECK(ps.exits.empty());
    ps.loop.Advance(1);
    CHECK(ps.exits == std::vector<int>{143});
  }
  {
    TestPs ps;
    ps.Ready();
    const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
    ps.ps->Drain();
    REQUIRE(ps.Call<SnapshotReply>(method::kSnapshot, ps.SnapshotOrder(1)).ok());
    CHECK(ps.exits.empty());
    CHECK(ps.Call<FinishReply>(method::kFinish, FinishOrder(ps, 143)).ok());
    CHECK(ps.exits == std::vector<int>{143});
    ps.loop.Advance(100000);
    CHECK(ps.exits.size() == 1);
  }
}

TEST_CASE("a ps drains at once if it holds nothing, or nobody could take a checkpoint of it") {
  TestPs empty;
  empty.ps->Drain();
  empty.loop.Advance(0);
  CHECK(empty.exits == std::vector<int>{143});
  TestPs alone;
  alone.Ready();
  alone.ps->Drain();
  alone.loop.Advance(0);
  CHECK(alone.exits == std::vector<int>{143});
  TestPs left;  // the coordinator has just died, and the ps does not know
  left.Ready();
  const auto hold = left.Send(method::kPsHold, HoldOrder(left));
  left.ps->Drain();
  hold->Cancel();
  left.loop.Advance(100);
  CHECK(left.exits == std::vector<int>{143});
}

TEST_CASE("a batch behind the end of the job is refused, until the job is given more") {
  TestModel model;
  model.job.epochs = 2;  // 100 batches in an epoch
  if (GENERATE(false, true)) model.job.steps = 200;
  TestPs ps(model);
  ps.Ready();
  CHECK(ps.Exchange(ps.PushOf(9, 0, 1.0f, /*epoch=*/1)).ok());
  const uint64_t far = GENERATE(uint64_t{2}, uint64_t{1000000000}, uint64_t{1} << 40);
  const absl::Status refused = ps.Exchange(ps.PushOf(0, 0, 1.0f, far)).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(ps.Describe().partitions(0).ledger().applied() == 1);
  CHECK(ps.Describe().refused() == 1);
  if (far != 2) return;
  CHECK(Contains(refused, "batch 0 of split 0 of epoch 3 is behind the end of the job"));
  REQUIRE(ps.Adopt(2).ok());
  ps.model.job.epochs = 3;
  ps.model.job.steps.reset();
  LoadRequest keep = ps.LoadOrder();
  keep.set_keep(true);
  REQUIRE(ps.Call<PsDescription>(method::kLoad, keep).ok());
  CHECK(ps.Exchange(ps.PushOf(0, 0, 1.0f, 2)).ok());
}

TEST_CASE("another learning rate and other timeouts are taken over by what is held") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.Adopt(2).ok());
  const std::string before = ps.Describe().settings();
  CHECK(before == PsSettings(ps.model.job));
  ps.model.job.optimizer = {"sgd", {{"learning_rate", 0.25}}};
  ps.model.job.timeouts.orphan_ms = 5000;
  LoadRequest keep = ps.LoadOrder();
  keep.set_keep(true);
  LoadRequest wrong = keep;
  wrong.mutable_fence()->set_generation(1);
  CHECK(absl::IsAborted(ps.Call<PsDescription>(method::kLoad, wrong).status()));
  wrong = keep;
  wrong.mutable_partitions(1)->set_id(77);
  CHECK(absl::IsInvalidArgument(ps.Call<PsDescription>(method::kLoad, wrong).status()));
  wrong = keep;
  wrong.mutable_partitions(0)->set_variable(77);
  CHECK(absl::IsInvalidArgument(ps.Call<PsDescription>(method::kLoad, wrong).status()));
  wrong = keep;
  wrong.set_job_json("{");
  CHECK_FALSE(ps.Call<PsDescription>(method::kLoad, wrong).ok());
  CHECK(ps.Describe().settings() == before);
  const auto kept = ps.Call<PsDescription>(method::kLoad, keep);
  REQUIRE(kept.ok());
  CHECK(kept->settings() == PsSettings(ps.model.job));
  CHECK(kept->partitions(0).ledger().applied() == 1);
  REQUIRE(ps.Exchange(ps.PushOf(0, 1, 1.0f)).ok());
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.25f));
  ps.loop.Advance(5001);
  CHECK(ps.exits == std::vector<int>{202});

  TestPs empty;
  REQUIRE(empty.Adopt(1).ok());
  LoadRequest nothing = empty.LoadOrder();
  nothing.set_keep(true);
  CHECK(absl::IsAborted(empty.Call<PsDescription>(method::kLoad, nothing).status()));
}

TEST_CASE("Finish answers before the ps leaves") {
  TestPs ps;
  ps.Ready();
  const auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kFinish, absl::Cord(FinishOrder(ps, 0).SerializeAsString()), call);
  CHECK(call->answered == 1);
  CHECK(ps.exits.empty());
  ps.loop.RunPosted();
  CHECK(ps.exits == std::vector<int>{0});
}

TEST_CASE("unknown methods and bytes that are no message are answered, not believed") {
  TestPs ps;
  const auto call = std::make_shared<FakeCall>();
  ps.ps->Handle("/paracord.ParameterServer/Explode", absl::Cord(), call);
  CHECK(absl::IsUnimplemented(call->reply.status()));
  for (const std::string_view name : {method::kDescribe, method::kAdopt, method::kLoad,
                                      method::kSnapshot, method::kPsHold, method::kFinish}) {
    const auto bad = std::make_shared<FakeCall>();
    ps.ps->Handle(name, absl::Cord("\x0a\x7f"), bad);
    CHECK(bad->answered == 1);
    CHECK(absl::IsInvalidArgument(bad->reply.status()));
  }
}

TEST_CASE("a ps that goes away answers whoever waits, and work in flight does not miss it") {
  TestPs ps;
  ps.Ready();
  const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
  ps.executor.set_at_once(false);
  const auto snapshot = ps.Send(method::kSnapshot, ps.SnapshotOrder(1));
  ps.ps.reset();
  CHECK(hold->answered == 1);
  CHECK(snapshot->answered == 1);
  ps.executor.RunOne();
  ps.loop.RunPosted();
  ps.loop.Advance(10000000);
  CHECK(ps.exits.empty());
}

TEST_CASE("an adoption is answered when the pushes under way have ended, with what they entered") {
  TestPs ps;
  ps.Ready();
  std::atomic<int>& pushes = ps.ps->content()->pushes;
  pushes = 1;
  const auto adoption = ps.Send(method::kAdopt, ps.AdoptOrder(2, "c2"));
  const auto repeated = ps.Send(method::kAdopt, ps.AdoptOrder(2, "c2"));
  CHECK(adoption->answered + repeated->answered == 0);
  CHECK(ps.ps->generation() == 2);
  CHECK(absl::IsAborted(ps.Call<PsDescription>(method::kAdopt, ps.AdoptOrder(1)).status()));
  pushes = 0;
  // The last push in progress runs the same code when it ends.
  CHECK(ps.PullAll().values.size() == 4);
  CHECK(adoption->answered == 1);
  CHECK(repeated->answered == 1);
  CHECK(adoption->reply.ok());
}

}  // namespace
}  // namespace paracord
