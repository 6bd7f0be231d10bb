// Makes a data plan from the bytes, as a stranger's Load or job.state may contain. The arithmetic
// of an accepted plan must be consistent: a batch has one place in its epoch and one number of
// examples, splits and lanes hold each batch once, and all ways to count rounds agree.
#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "config/data_plan.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {
namespace {

DataPlan Draw(Input& input) {
  DataPlan plan;
  const uint64_t how = input.Number(3);
  if (how == 0) {
    (void)plan.ParseFromString(std::string(input.Bytes(64)));
    return plan;
  }
  plan.set_records(input.Number(how == 1 ? 2000 : UINT64_MAX));
  plan.set_test_records(input.Number(how == 1 ? 2000 : UINT64_MAX));
  plan.set_batch(static_cast<uint32_t>(input.Number(how == 1 ? 40 : UINT32_MAX)));
  plan.set_split_batches(static_cast<uint32_t>(input.Number(how == 1 ? 40 : UINT32_MAX)));
  plan.set_lanes(static_cast<uint32_t>(input.Number(how == 1 ? 12 : UINT32_MAX)));
  plan.set_drop_last(input.Number(1) == 1);
  // With most numbers of lanes, the batches of a split would not fit.
  if (plan.lanes() > 0 && input.Number(3) > 0) plan.set_split_batches(RoundsPerEpoch(plan));
  return plan;
}

void CheckPlace(const DataPlan& plan, uint64_t place) {
  const uint64_t batches = BatchesPerEpoch(plan);
  const BatchId at = BatchAt(plan, 1, place);
  const uint32_t examples = BatchExamples(plan, at.split(), at.batch());
  Demand((examples > 0) == (place < batches), "the places of an epoch have batches");
  if (place >= batches) return;
  Demand(BatchInEpoch(plan, at.split(), at.batch()) == place, "a batch has one place");
  Demand(at.split() < SplitsPerEpoch(plan) && at.batch() < BatchesInSplit(plan, at.split()),
         "a batch is one of its split");
  Demand(BatchesOfSplit(plan, at.split(), place + 1) == at.batch() + 1 &&
             BatchesOfSplit(plan, at.split(), place) == at.batch(),
         "the first batches of an epoch are cut like all");
  if (plan.lanes() == 0) return;
  Demand(at.split() < LanesOfRound(plan, at.batch()), "a lane has a batch in its round");
  const uint64_t first = batches + place;  // in the second epoch
  Demand(RoundsOfFirst(plan, first) == StateBefore(plan, 1, at.batch() + (at.split() > 0 ? 1 : 0)),
         "rounds are counted in one way");
  const uint64_t end = UpToEndOfRound(plan, first + 1);
  Demand(end > first && end <= 2 * batches && end - first <= plan.lanes(), "a round ends soon");
  Demand(RoundsOfFirst(plan, end) == StateBefore(plan, 1, at.batch() + 1), "it ends with itself");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const DataPlan plan = Draw(input);
  if (!CheckDataPlan(plan).ok()) return 0;
  const uint64_t batches = BatchesPerEpoch(plan), splits = SplitsPerEpoch(plan);
  Demand(batches > 0 && splits > 0 && splits <= kSplitsPerEpochMax, "an epoch has batches");
  Demand(BatchesOfFirst(plan, splits) == batches, "splits hold all batches");
  const uint64_t some = input.Number(UINT64_MAX) % splits;
  Demand(
      *BatchesOfFirst(plan, some + 1) - *BatchesOfFirst(plan, some) == BatchesInSplit(plan, some),
      "splits follow one another");
  (void)BatchesOfFirst(plan, input.Number(UINT64_MAX));
  (void)BatchesOfJob(plan, input.Number(UINT64_MAX), input.Number(UINT64_MAX));
  CheckEpochs(plan, input.Number(UINT64_MAX)).IgnoreError();
  CheckPlace(plan, 0);
  CheckPlace(plan, batches - 1);
  for (int i = 0; i < 8; ++i) CheckPlace(plan, input.Number(UINT64_MAX) % (batches + splits));
  return 0;
}

}  // namespace paracord::fuzz
