#include "coordinator/batch_failures.h"

#include <algorithm>
#include <tuple>

namespace paracord {

BatchFailures::Verdict BatchFailures::Add(const BatchId& batch, FailureKind kind,
                                          const std::string& worker, bool other_worker) {
  Count& count = counts_[{batch.epoch(), batch.split(), batch.batch()}];
  ++count.failures;
  count.workers.insert(worker);
  if (count.failures < spec_.per_batch) return Verdict::kTryAgain;
  if (count.workers.size() < 2 && other_worker) return Verdict::kTryAgain;
  if (kind == FailureKind::kNonFinite) rejected_nonfinite_ = true;
  if (!spec_.skip) return Verdict::kFailJob;
  count.rejected = true;
  return Verdict::kReject;
}

std::vector<uint32_t> BatchFailures::Rejected(uint64_t epoch, uint64_t split) const {
  std::vector<uint32_t> batches;
  for (auto it = counts_.lower_bound({epoch, split, 0});
       it != counts_.end() && std::get<0>(it->first) == epoch && std::get<1>(it->first) == split;
       ++it) {
    if (it->second.rejected) batches.push_back(std::get<2>(it->first));
  }
  return batches;
}

uint64_t BatchFailures::RejectedIn(uint64_t epoch) const {
  return static_cast<uint64_t>(std::count_if(counts_.begin(), counts_.end(), [&](const auto& item) {
    return std::get<0>(item.first) == epoch && item.second.rejected;
  }));
}

void BatchFailures::ForgetBefore(uint64_t epoch) {
  counts_.erase(counts_.begin(), counts_.lower_bound({epoch, 0, 0}));
}

}  // namespace paracord
