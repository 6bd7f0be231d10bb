// A ps takes all memory from the budget of its process.
#include <catch2/catch.hpp>
#include <map>

#include "common/memory_budget.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TestModel Matrix(uint64_t mib, const std::string& optimizer) {
  TestModel model;
  model.job.optimizer = {optimizer, {{"learning_rate", 1.0}}};
  model.variables = {TestVariable("dense/kernel", {mib, 1 << 18})};
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, mib)};
  return model;
}

std::map<std::string, uint64_t> Held(const MemoryBudget& memory) {
  std::map<std::string, uint64_t> held;
  for (const MemoryUse& each : memory.Uses()) held[each.holder] = each.bytes;
  return held;
}

TEST_CASE("a job that does not fit is refused before its variables are allocated") {
  const auto memory = std::make_shared<MemoryBudget>(256 * kMiB);
  TestPs ps(Matrix(48, "adam"), "", 0, 0, 0, false, memory);
  REQUIRE(ps.Adopt(1).ok());
  const absl::Status refused = ps.Load();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message() ==
        "variables and slots take 144.0 MiB and one push of them 48.8 MiB, for which at least "
        "305.6 MiB are needed, and --memory-limit is 256.0 MiB: give this ps more memory, or the "
        "job more ps");
  CHECK(Held(*memory)["variables"] == 0);
}

TEST_CASE("a table needs no room for a push of all its rows, which no batch names") {
  TestModel model = Matrix(60, "sgd");
  const auto load = [&] {
    TestPs ps(model, "", 0, 0, 0, false, std::make_shared<MemoryBudget>(192 * kMiB));
    REQUIRE(ps.Adopt(1).ok());
    return ps.Load();
  };
  CHECK(absl::IsInvalidArgument(load()));
  model.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
  const absl::Status loaded = load();
  INFO(loaded);
  CHECK(loaded.ok());
}

TEST_CASE("what rounds take at their worst is held, and a job whose rounds do not fit is refused") {
  TestModel model = Matrix(32, "sgd");
  model.job.guarantees.consistency = "sync";
  model.job.guarantees.recovery = "rollback";
  model.job.guarantees.round_batches = 4;
  model.plan.set_lanes(4);
  model.plan.set_split_batches(25);
  const auto memory = std::make_shared<MemoryBudget>(1024 * kMiB);
  TestPs ps(model, "", 0, 0, 0, false, memory);
  ps.Ready();
  const PsDescription now = ps.Describe(false);
  REQUIRE(now.memory_size() == 9);
  CHECK(now.memory(1).holder() == "rounds");
  // Two gradients may wait for their siblings in the tree of a round.
  CHECK(now.memory(1).bytes() == 2 * 32 * kMiB);
  CHECK(Held(*memory)["variables"] == 32 * kMiB);

  const auto small = std::make_shared<MemoryBudget>(208 * kMiB);
  TestPs refuses(model, "", 0, 0, 0, false, small);
  REQUIRE(refuses.Adopt(1).ok());
  const absl::Status refused = refuses.Load();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(std::string(refused.message()).find("rounds 64.0 MiB") != std::string::npos);
  CHECK(std::string(refused.message()).find("\"round_batches\"") != std::string::npos);
  CHECK_FALSE(refuses.ps->content() != nullptr);
}

TEST_CASE("without slots the same variables fit, and the budget says who holds what") {
  const auto memory = std::make_shared<MemoryBudget>(256 * kMiB);
  TestPs ps(Matrix(48, "sgd"), "", 0, 0, 0, false, memory);
  ps.Ready();
  const PsDescription now = ps.Describe(false);
  CHECK(now.bytes() == 48 * kMiB);
  CHECK(Held(*memory)["variables"] == now.bytes());
  // A pulled chunk counts as "replies" once an update has replaced it.
  DecodedRequest pull;
  *pull.header.mutable_fence() = ps.MakeFence();
  ps.AddPulls(pull);
  auto call = std::make_shared<FakeCall>();
  ps.ps->Handle(method::kExchange, Joined(EncodeExchange(pull.header, {})), call);
  REQUIRE(call->reply.ok());
  CHECK(Held(*memory)["replies"] == 0);
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1)).ok());
  CHECK(Held(*memory)["replies"] == 48 * kMiB);
  call = nullptr;
  CHECK(Held(*memory)["replies"] == 0);
}

TEST_CASE("describing a ps says who holds what, and what the limit is") {
  const auto memory = std::make_shared<MemoryBudget>(256 * kMiB);
  TestPs ps(Matrix(48, "sgd"), "", 0, 0, 0, false, memory);
  ps.Ready();
  const PsDescription now = ps.Describe(false);
  CHECK(now.memory_limit() == 256 * kMiB);
  REQUIRE(now.memory_size() == 8);
  CHECK(now.memory(0).holder() == "variables");
  CHECK(now.memory(0).bytes() == now.bytes());
  CHECK(now.memory(1).holder() == "requests");
  CHECK(now.memory(1).bytes_max() == memory->requests()->bytes_max());
  CHECK(TestPs().Describe(false).memory_limit() == 0);  // a ps without --memory-limit
}

TEST_CASE("gradients that come early are refused where their share is full") {
  // 3.7 MiB of it are for staged gradients
  const auto memory = std::make_shared<MemoryBudget>(128 * kMiB);
  TestPs ps(Matrix(5, "sgd"), "", 0, 0, 0, false, memory);
  ps.Ready();
  const auto stage = [&](uint64_t bytes) {
    DecodedRequest request;
    *request.header.mutable_fence() = ps.MakeFence();
    request.header.set_worker("w" + std::to_string(bytes));
    request.header.mutable_staged()->set_id("push");
    request.header.mutable_staged()->set_bytes(bytes);
    request.pieces.push_back({0, 0, absl::Cord(std::string(bytes, 'x'))});
    const auto call = std::make_shared<FakeCall>();
    ps.ps->Handle(method::kStage, Joined(EncodeExchange(request.header, request.pieces)), call);
    return call->reply.status();
  };
  CHECK(stage(2 * kMiB).ok());
  CHECK(Held(*memory)["staged"] >= 2 * kMiB);
  CHECK(absl::IsResourceExhausted(stage(2 * kMiB + 1)));
  CHECK(stage(kMiB).ok());
}

TEST_CASE("readers that are waited for no longer are forgiven up to a bound") {
  const auto share = std::make_shared<MemoryShare>(100, 50);
  const auto pinned = std::make_shared<PinnedBytes>(share);
  const PulledCopy first(120, pinned);
  CHECK(pinned->OverLimit());
  pinned->RaiseLimit();
  CHECK_FALSE(pinned->OverLimit());
  const PulledCopy second(40, pinned);
  CHECK(pinned->OverLimit());
  pinned->RaiseLimit();
  CHECK(pinned->OverLimit());  // 160 of 150 bytes
}

TEST_CASE("a job that has ended gives its memory back to the budget") {
  const auto memory = std::make_shared<MemoryBudget>(256 * kMiB);
  TestPs ps(Matrix(48, "sgd"), "", 0, 0, 0, /*stay=*/true, memory);
  ps.Ready();
  const uint64_t before = memory->requests()->bytes_max();
  FinishRequest finish;
  *finish.mutable_fence() = ps.MakeFence();
  finish.set_coordinator_boot_id("c1");
  REQUIRE(ps.Call<FinishReply>(method::kFinish, finish).ok());
  ps.loop.RunPosted();
  CHECK(Held(*memory)["variables"] == 0);
  CHECK(memory->requests()->bytes_max() > before);
}

}  // namespace
}  // namespace paracord
