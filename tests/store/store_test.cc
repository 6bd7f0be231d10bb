// A store outside a ps: any program that links the library can keep values and apply steps.
#include "store/store.h"

#include <catch2/catch.hpp>

#include "store/table_partition.h"
#include "tests/fakes.h"
#include "tests/floats.h"

namespace paracord {
namespace {

std::unique_ptr<PartitionSet> MakeContent() {
  auto content = std::make_unique<PartitionSet>();
  content->plan.set_records(100);
  content->plan.set_batch(10);
  content->plan.set_split_batches(10);
  content->optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
  TableContents contents;
  contents.fixed = std::make_unique<FixedTable>(content->optimizer, std::vector<uint64_t>{5, 2},
                                                /*row_begin=*/100, /*trained=*/true);
  contents.fixed->PlaceOf(contents.fixed->columns()[0]).Put(0, std::vector<float>(10, 1.0f));
  content->partitions.push_back(
      std::make_unique<TablePartition>(Partition::Facts{.id = 4,
                                                        .name = "v",
                                                        .shape = {5, 2},
                                                        .trained = true,
                                                        .bytes = 10 * sizeof(float),
                                                        .row_begin = 100},
                                       1, std::move(contents)));
  content->trained = 1;
  return content;
}

TEST_CASE("a step is applied without a ps, and what is wanted comes back") {
  const auto content = MakeContent();
  UpdateCounters counters;
  ManualLoop loop;
  WaitingPulls waiting(loop, std::make_shared<MemoryShare>());
  const Store store(*content, counters, waiting);
  const auto apply = [&](StepRequest request) {
    absl::StatusOr<DecodedReply> reply = absl::UnknownError("not answered");
    store.Apply(std::move(request), {},
                [&](absl::StatusOr<DecodedReply> answer) { reply = std::move(answer); });
    return reply;
  };
  StepRequest request;
  request.step.emplace();
  Update& update = request.updates.emplace_back();
  update.partition = 4;
  update.rows = RowIds{101, 104};
  update.gradient = CordOf({1, 2, 3, 4});
  Want& want = request.wants.emplace_back();
  want.partition = 4;
  want.rows = RowIds{100, 104};
  const StepRequest again = request;
  const absl::StatusOr<DecodedReply> reply = apply(request);
  REQUIRE(reply.ok());
  CHECK(reply->header.partitions(0).outcome() == PUSH_APPLIED);
  REQUIRE(reply->pieces.size() == 1);
  CHECK(reply->pieces[0].data == CordOf({1, 1, -2, -3}));
  CHECK(apply(again)->header.partitions(0).outcome() == PUSH_ALREADY_APPLIED);
  CHECK(counters.duplicates == 1);

  request = {};
  request.step.emplace();
  CHECK(apply(request).status().message() == "partition 4: the push leaves it out");
  CHECK(counters.refused == 1);
}

}  // namespace
}  // namespace paracord
