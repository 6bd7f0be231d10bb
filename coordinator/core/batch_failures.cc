#include "coordinator/core/batch_failures.h"

#include <algorithm>
#include <tuple>

namespace paracord {
namespace {

constexpr int64_t kFirstPauseMs = 250;  // after the second death; doubles with each further one
constexpr int64_t kPauseMsMax = 10000;
constexpr uint32_t kDoublingsMax = 10;
constexpr uint32_t kThirds = 3;

}  // namespace

BatchFailures::BatchFailures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected)
    : spec_(spec) {
  for (const RejectedBatch& batch : rejected) {
    Count& count = counts_[{batch.epoch, batch.split, batch.batch}];
    count.nonfinite = batch.nonfinite;
    count.state = State::kRejected;
  }
}

BatchFailures::Verdict BatchFailures::Add(const BatchId& batch, FailureKind kind,
                                          const std::string& worker, bool other_worker) {
  Count& count = counts_[KeyOf(batch)];
  if (count.state != State::kCounted) return Verdict::kTryAgain;  // given up before
  const bool limit = kind == FailureKind::kLimit;
  std::set<std::string>& workers = limit ? count.limited_workers : count.workers;
  const uint32_t failures = ++(limit ? count.limits : count.failures);
  workers.insert(worker);
  if (!limit) count.nonfinite = kind == FailureKind::kNonFinite;
  if (failures < spec_.per_batch) return Verdict::kTryAgain;
  if (workers.size() < 2 && other_worker) return Verdict::kTryAgain;
  return limit ? Verdict::kFailJob : GiveUp(count);
}

BatchFailures::Verdict BatchFailures::GiveUp(Count& count) const {
  if (!spec_.skip) return Verdict::kFailJob;
  count.state = State::kPending;
  return Verdict::kReject;
}

int64_t BatchFailures::PauseAfterDeath(const BatchId& batch) {
  const uint32_t deaths = ++counts_[KeyOf(batch)].deaths;
  if (deaths < 2) return 0;
  return std::min(kPauseMsMax, kFirstPauseMs << std::min(deaths - 2, kDoublingsMax));
}

BatchFailures::Verdict BatchFailures::AddDeath(const BatchId& batch, Outlived outlived) {
  Count& count = counts_[KeyOf(batch)];
  if (count.state != State::kCounted || count.entered || outlived == Outlived::kByNobody) {
    return Verdict::kTryAgain;
  }
  count.death_thirds += outlived == Outlived::kByBusyWorkers ? kThirds : 1;
  if (count.death_thirds < spec_.deaths_per_batch * kThirds) return Verdict::kTryAgain;
  count.nonfinite = false;
  return GiveUp(count);
}

std::vector<BatchId> BatchFailures::Pending() const {
  std::vector<BatchId> pending;
  for (const auto& [key, count] : counts_) {
    if (count.state == State::kPending) pending.push_back(BatchOf(key));
  }
  return pending;
}

std::optional<BatchId> BatchFailures::PendingAgain() const {
  const auto again = std::ranges::find_if(counts_, [](const auto& item) {
    return item.second.state == State::kPending && item.second.entered;
  });
  return again == counts_.end() ? std::nullopt : std::optional(BatchOf(again->first));
}

BatchId BatchFailures::BatchOf(const Key& key) {
  BatchId batch;
  batch.set_epoch(std::get<0>(key));
  batch.set_split(std::get<1>(key));
  batch.set_batch(std::get<2>(key));
  return batch;
}

bool BatchFailures::Decide(const BatchId& batch, bool entered, bool by_all_or_none) {
  const auto found = counts_.find(KeyOf(batch));
  if (found == counts_.end() || found->second.state != State::kPending) return false;
  Count& count = found->second;
  if (entered && (by_all_or_none || !count.entered)) {
    count = Count{};
    count.entered = true;
    return false;
  }
  count.state = State::kDecided;
  return true;
}

void BatchFailures::Saved() {
  for (auto& [key, count] : counts_) {
    if (count.state == State::kDecided) count.state = State::kRejected;
  }
}

std::set<uint64_t> BatchFailures::Withheld(uint64_t epoch) const {
  std::set<uint64_t> splits;
  for (auto it = counts_.lower_bound({epoch, 0, 0});
       it != counts_.end() && std::get<0>(it->first) == epoch; ++it) {
    const State state = it->second.state;
    if (state == State::kPending || state == State::kDecided) splits.insert(std::get<1>(it->first));
  }
  return splits;
}

std::vector<uint32_t> BatchFailures::Rejected(uint64_t epoch, uint64_t split) const {
  std::vector<uint32_t> batches;
  for (auto it = counts_.lower_bound({epoch, split, 0});
       it != counts_.end() && std::get<0>(it->first) == epoch && std::get<1>(it->first) == split;
       ++it) {
    if (it->second.state == State::kRejected) batches.push_back(std::get<2>(it->first));
  }
  return batches;
}

std::vector<RejectedBatch> BatchFailures::All() const {
  std::vector<RejectedBatch> all;
  for (const auto& [key, count] : counts_) {
    if (count.state != State::kDecided && count.state != State::kRejected) continue;
    all.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count.nonfinite});
  }
  return all;
}

uint64_t BatchFailures::RejectedIn(uint64_t epoch) const {
  const std::vector<RejectedBatch> all = All();
  return static_cast<uint64_t>(std::count_if(
      all.begin(), all.end(), [&](const RejectedBatch& batch) { return batch.epoch == epoch; }));
}

bool BatchFailures::RejectedNonFinite() const {
  const std::vector<RejectedBatch> all = All();
  return std::any_of(all.begin(), all.end(),
                     [](const RejectedBatch& batch) { return batch.nonfinite; });
}

void BatchFailures::ForgetBefore(uint64_t epoch) {
  counts_.erase(counts_.begin(), counts_.lower_bound({epoch, 0, 0}));
}

}  // namespace paracord
