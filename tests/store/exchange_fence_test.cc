// A push checks its generation once. It reaches all partitions of a store or none.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>

#include "store/dense_partition.h"
#include "store/store.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A newer generation begins during the update of this partition.
class OvertakenPartition : public DensePartition {
 public:
  OvertakenPartition(uint32_t id, const Optimizer& optimizer, const RoundsOptions& rounds,
                     std::atomic<uint64_t>& newest)
      : DensePartition({.id = id, .name = "v", .shape = {4}, .trained = true, .bytes = 16},
                       optimizer, {.value = Block(4), .slots = {}, .ledger = {}}, nullptr, rounds),
        newest_(newest) {}
  Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
               const PushFence& fence) override {
    ++newest_;
    return DensePartition::Push(batch, rejected, update, fence);
  }

 private:
  std::atomic<uint64_t>& newest_;
};

TEST_CASE("a generation that begins in the middle of a push lets it reach every partition") {
  std::atomic<uint64_t> newest = 1;
  PartitionSet content;
  content.plan = PlanOfLanes(20, 1, 1);
  content.sync = true;
  content.optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
  for (uint32_t id = 0; id < 3; ++id) {
    content.partitions.push_back(std::make_unique<OvertakenPartition>(
        id, content.optimizer, RoundsOptions{content.plan, 0, /*keeps_before=*/false}, newest));
  }
  content.trained = 3;
  ManualLoop loop;
  UpdateCounters counters;
  const auto waiting = std::make_shared<WaitingPulls>(loop, std::make_shared<MemoryShare>());
  const auto push = [&](uint32_t batch, uint64_t generation) {
    StepRequest request;
    request.step.emplace();
    request.step->batch.set_batch(batch);
    for (uint32_t id = 0; id < 3; ++id) request.updates.emplace_back().partition = id;
    absl::Status answer = absl::UnknownError("none");
    Store(content, counters, *waiting)
        .Apply(std::move(request), PushFence(newest, generation),
               [&](const absl::StatusOr<DecodedReply>& reply) { answer = reply.status(); });
    CHECK(content.pushes == 0);
    return answer;
  };
  CHECK(push(0, 1).ok());
  for (const auto& partition : content.partitions) CHECK(partition->GetCounts().state == 1);
  CHECK(absl::IsAborted(push(1, 1)));
  CHECK(counters.stale == 1);
  for (const auto& partition : content.partitions) CHECK(partition->GetCounts().state == 1);
  waiting->Close(absl::UnavailableError("the test ends"));
}

}  // namespace
}  // namespace paracord
