// Parses the bytes as a ledger and a plan, and enters batches. An accepted ledger must survive
// printing, and must enter a batch at most once.
#include <string>

#include "config/data_plan.h"
#include "storage/checkpoint.h"
#include "store/ledger.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  DataPlan plan;
  plan.set_records(input.Number(UINT64_MAX));
  plan.set_batch(static_cast<uint32_t>(input.Number(UINT32_MAX)));
  plan.set_split_batches(static_cast<uint32_t>(input.Number(UINT32_MAX)));
  if (plan.split_batches() > INT32_MAX) {
    plan.set_lanes(1 + plan.split_batches() % kLanesMax);
    plan.set_split_batches(static_cast<uint32_t>(DivideUp(BatchesPerEpoch(plan), plan.lanes())));
  }
  BatchId id;
  id.set_epoch(input.Number(UINT64_MAX));
  id.set_split(input.Number(UINT64_MAX));
  id.set_batch(static_cast<uint32_t>(input.Number(UINT32_MAX)));
  Ledger ledger;
  const std::string_view text = input.Rest();
  ReadCounts({{"updates:p", "1"}}, "p", std::string(text)).status().IgnoreError();
  if (!ledger.ParseFromArray(text.data(), static_cast<int>(text.size()))) return 0;
  absl::StatusOr<PartitionLedger> entered = PartitionLedger::FromProto(ledger, plan);
  if (!entered.ok()) return 0;
  const Ledger printed = entered->ToProto(/*intervals=*/true);
  const absl::StatusOr<PartitionLedger> again = PartitionLedger::FromProto(printed, plan);
  Demand(again.ok() && again->ToProto(true).SerializeAsString() == printed.SerializeAsString(),
         "a ledger survives being printed");
  const absl::StatusOr<PlanBatch> batch = FindBatch(plan, id);
  if (!batch.ok()) return 0;
  const uint64_t before = entered->applied() + entered->rejected();
  const PartitionLedger::Entry first = entered->Enter(*batch, input.empty());
  const PartitionLedger::Entry second = entered->Enter(*batch, input.empty());
  Demand(second.outcome != PUSH_APPLIED, "a batch is entered at most once");
  Demand(entered->applied() + entered->rejected() == before + (first.outcome == PUSH_APPLIED),
         "what is entered is counted");
  return 0;
}

}  // namespace paracord::fuzz
