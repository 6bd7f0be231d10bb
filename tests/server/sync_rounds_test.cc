// A ps of a synchronous job: what it loads, describes and restores.
#include <array>

#include "absl/strings/match.h"
#include "config/proofs.h"
#include "server/parameter_server.h"
#include "tests/batches.h"
#include "tests/server/grown_rows.h"

namespace paracord {
namespace {

TestModel RoundsModel() {
  TestModel model = GrowingModel({"adam"});
  model.job.guarantees.consistency = "sync";
  model.job.guarantees.recovery = "rollback";
  model.job.guarantees.round_batches = 2;
  model.plan = PlanOfLanes(1000, 10, 2);
  model.variables[0].mutable_table()->set_expire_batches(7);
  return model;
}

// Pushes the n-th batch of the epoch.
absl::StatusOr<Pulled> PushNth(TestPs& ps, uint32_t n, const GrownGradients& gradients) {
  DecodedRequest request = GrownPush(ps, n, gradients);
  request.header.mutable_batch()->set_split(n % 2);
  request.header.mutable_batch()->set_batch(n / 2);
  return ps.Exchange(request);
}
void PushRange(TestPs& ps, uint32_t begin, uint32_t end) {
  for (uint32_t n = begin; n < end; ++n) {
    const absl::StatusOr<Pulled> pushed = PushNth(ps, n, GrownBatch(n));
    REQUIRE(pushed.ok());
    for (uint32_t id = 0; id <= kGrownShards; ++id) {
      REQUIRE(pushed->State(id).outcome() == (n % 2 == 0 ? PUSH_TAKEN : PUSH_APPLIED));
    }
  }
}
std::set<uint64_t> AllGrownIds() {
  std::set<uint64_t> ids;
  for (uint64_t id = 0; id <= 300; ++id) ids.insert({id, id << 50});
  return ids;
}
absl::Status PullState(TestPs& ps, uint64_t state) {
  DecodedRequest request;
  *request.header.mutable_fence() = ps.MakeFence();
  request.header.set_state(state);
  for (uint32_t id = 0; id <= kGrownShards; ++id) {
    PartitionPull& pull = *request.header.add_pull();
    pull.set_partition(id);
    if (id < kGrownShards) SetPullRows(request, pull, {});
  }
  return ps.Exchange(request).status();
}

TEST_CASE("a synchronous ps that is restored goes on at its state, without what was pending") {
  TestDirectory root;
  TestPs calm(RoundsModel(), root / "calm");
  TestPs first(RoundsModel(), root / "job");
  calm.Ready();
  first.Ready();
  PushRange(calm, 0, 30);
  PushRange(first, 0, 14);
  REQUIRE(PushNth(first, 14, GrownBatch(99))->State(0).outcome() == PUSH_TAKEN);
  const std::string name = CommitGrown(first, 1, "", false, /*cut=*/7);

  TestPs second(RoundsModel(), root / "job");
  REQUIRE(second.Adopt(2).ok());
  REQUIRE(second.Load(name).ok());
  const PsDescription described = second.Describe();
  for (const PartitionDescription& partition : described.partitions()) {
    CHECK(partition.state() == 7);
    CHECK(partition.ledger().steps() == 7);
    CHECK(partition.ledger().applied() == 14);
    CHECK_FALSE(partition.serves_before());
  }
  PushRange(second, 14, 30);
  CHECK(GrownRows(second, AllGrownIds()) == GrownRows(calm, AllGrownIds()));
  const PsDescription now = second.Describe(), expected = calm.Describe();
  for (int i = 0; i < now.partitions_size(); ++i) {
    CHECK(now.partitions(i).ledger().SerializeAsString() ==
          expected.partitions(i).ledger().SerializeAsString());
    CHECK(now.partitions(i).updates() == expected.partitions(i).updates());
    CHECK(now.partitions(i).state() == 15);
  }
  CHECK(GrownCounts(second).expired() == GrownCounts(calm).expired());
}

// Loads a checkpoint of a job with bounded staleness into a synchronous job. `of_bias` and
// `of_others`: how many rejected batches of each lane the ledgers have, of the bias and of other
// partitions.
absl::Status LoadEntered(const std::array<uint32_t, 2>& of_bias,
                         const std::array<uint32_t, 2>& of_others) {
  TestDirectory root;
  TestModel model = RoundsModel();
  model.job.guarantees = {};
  model.job.guarantees.staleness = 5;
  model.job.guarantees.round_batches = 2;
  TestPs first(model, root / "job");
  first.Ready();
  for (uint32_t id = 0; id <= kGrownShards; ++id) {
    const std::array<uint32_t, 2>& entered = id == kGrownShards ? of_bias : of_others;
    for (uint64_t lane = 0; lane < 2; ++lane) {
      for (uint32_t batch = 0; batch < entered[lane]; ++batch) {
        const PlanBatch of = *FindBatch(model.plan, BatchOf(0, lane, batch));
        first.ps->content()->Find(id)->Push(of, /*rejected=*/true, {}, {});
      }
    }
  }
  const std::string name = CommitGrown(first, 1);
  TestPs second(RoundsModel(), root / "job");
  REQUIRE(second.Adopt(2).ok());
  return second.Load(name);
}

TEST_CASE("what a synchronous job loads has one state, or is refused with both") {
  CHECK(LoadEntered({2, 2}, {2, 2}).ok());
  const absl::Status lanes = LoadEntered({2, 2}, {2, 1});
  CHECK(absl::IsDataLoss(lanes));
  CHECK(absl::StrContains(lanes.message(), "user/embeddings/part_0"));
  CHECK(absl::StrContains(lanes.message(), "at state 1, and others at state 2"));
  const absl::Status partitions = LoadEntered({3, 3}, {2, 2});
  CHECK(absl::IsDataLoss(partitions));
  CHECK(absl::StrContains(partitions.message(),
                          "partition user/embeddings/part_0 is at state 2 and partition "
                          "dense/bias/part_0 at state 3"));
}

TEST_CASE("a ps keeps the state before where it is told to") {
  for (const bool keeps : {false, true}) {
    TestPs ps(RoundsModel());
    REQUIRE(ps.Adopt(1).ok());
    LoadRequest order = ps.LoadOrder();
    order.set_keeps_before(keeps);
    REQUIRE(ps.Call<PsDescription>(method::kLoad, order).ok());
    CHECK(PullState(ps, 0).ok());
    PushRange(ps, 0, 2);
    CHECK(PullState(ps, 1).ok());
    CHECK(ps.Describe().partitions(0).serves_before() == keeps);
    CHECK(PullState(ps, 0).code() ==
          (keeps ? absl::StatusCode::kOk : absl::StatusCode::kOutOfRange));
  }
}

TEST_CASE("rows expire after so many rounds as have the batches that the job says") {
  TestPs ps(RoundsModel());  // 7 batches fill 4 rounds of 2
  ps.Ready();
  const auto round = [&](uint32_t n, const GrownGradients& gradients) {
    for (uint32_t lane = 0; lane < 2; ++lane) REQUIRE(PushNth(ps, 2 * n + lane, gradients).ok());
  };
  round(0, {{1, 2.0f}, {2, 2.0f}});
  const Floats updated = GrownRows(ps, {1}).at(1);
  for (uint32_t n = 1; n < 5; ++n) round(n, {{2, 1.0f}});
  CHECK(GrownRows(ps, {1}).at(1) == updated);
  round(5, {{2, 1.0f}});
  CHECK(GrownRows(ps, {1}).at(1) != updated);
}

// The model of TestModel, in rounds of two lanes, clipped by norm. Another ps holds a partition.
TestModel ClippedModel() {
  TestModel model;
  model.job.guarantees.consistency = "sync";
  model.job.guarantees.recovery = "rollback";
  model.job.guarantees.round_batches = 2;
  model.job.optimizer = {"sgd", {{"learning_rate", 1.0}, {"clipnorm", 0.5}}};
  model.plan = PlanOfLanes(1000, 10, 2);
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, 3),
                      TestPartition(1, 1, "dense/bias/part_0", 0, 2),
                      TestPartition(2, 2, "frozen/part_0", 0, 4)};
  return model;
}

TEST_CASE("norms need the proof of a lease of this generation") {
  TestPs ps(ClippedModel());
  AdoptRequest adopt = ps.AdoptOrder(7);
  adopt.set_proof_key("key");
  REQUIRE(ps.Call<PsDescription>(method::kAdopt, adopt).ok());
  REQUIRE(ps.Load().ok());
  DecodedRequest pull;
  *pull.header.mutable_fence() = ps.MakeFence();
  ps.AddPulls(pull);
  pull.header.set_state(1);
  for (uint64_t lane = 0; lane < 2; ++lane) {
    DecodedRequest push = ps.PushOf(lane, 0, 1.0f);
    push.header.set_proof(LeaseProofOf("key", 7, 0, lane));
    REQUIRE(ps.Exchange(push).ok());
  }
  const absl::StatusOr<Pulled> told = ps.Exchange(pull);
  REQUIRE(told.ok());
  REQUIRE(told->header.norms_wanted());
  RoundNorms& norms = *pull.header.mutable_norms();
  norms.add_squares(told->State(0).squares() + 3);
  norms.add_squares(told->State(1).squares());
  norms.add_squares(0);
  norms.mutable_lease()->set_split(1);
  pull.header.set_worker("worker:2");
  for (const std::string& proof : {std::string(), LeaseProofOf("another", 7, 0, 1),
                                   LeaseProofOf("key", 6, 0, 1), LeaseProofOf("key", 7, 0, 0)}) {
    norms.set_proof(proof);
    const absl::Status refused = ps.Exchange(pull).status();
    CHECK(absl::IsPermissionDenied(refused));
    CHECK(absl::StartsWith(refused.message(), "worker:2 carries norms of round 0 without "));
    CHECK(ps.Describe().partitions(0).state() == 0);
  }
  norms.set_proof(LeaseProofOf("key", 7, 0, 1));
  CHECK_FALSE(ps.Exchange(pull)->header.waits());
  CHECK(ps.Describe().partitions(0).state() == 1);
}

}  // namespace
}  // namespace paracord
