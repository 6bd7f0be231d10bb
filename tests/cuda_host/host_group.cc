#include "tests/cuda_host/host_group.h"

#include <algorithm>
#include <utility>

namespace paracord::cuda {

absl::Status HostGroup::Sum(size_t rank, std::vector<DeviceFloats> arrays) {
  std::unique_lock lock(mu_);
  if (aborted_) return absl::DataLossError("the group was given up");
  given_[rank] = std::move(arrays);
  if (++here_ == given_.size()) {
    for (const auto& each : given_) {
      wrong_ = wrong_ || !std::equal(each.begin(), each.end(), given_[0].begin(), given_[0].end(),
                                     [](const auto& a, const auto& b) { return a.n == b.n; });
    }
    for (size_t k = 0; k < given_[0].size() && !wrong_; ++k) {
      for (int64_t i = 0; i < given_[0][k].n; ++i) {
        float sum = 0;
        for (const auto& each : given_) sum += each[k].data[i];
        for (const auto& each : given_) each[k].data[i] = sum;
      }
    }
    here_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&, round = round_] { return aborted_ || round_ != round; });
  }
  if (aborted_) return absl::DataLossError("the group was given up");
  return wrong_ ? absl::InternalError("ranks ask for different sums") : absl::OkStatus();
}

void HostGroup::Abort() {
  const std::lock_guard lock(mu_);
  aborted_ = true;
  changed_.notify_all();
}

bool HostGroup::aborted() {
  const std::lock_guard lock(mu_);
  return aborted_;
}

int HostGroup::sums() {
  const std::lock_guard lock(mu_);
  return round_;
}

}  // namespace paracord::cuda
