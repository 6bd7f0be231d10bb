#include "keras/part_sum.h"

#include <utility>

namespace paracord {

absl::StatusOr<std::vector<double>> PartSum::Sum(size_t part, std::vector<double> numbers) {
  std::unique_lock lock(mu_);
  given_.resize(parts_);
  given_[part] = std::move(numbers);
  if (++here_ == parts_) {
    sums_.assign(given_[0].size(), 0);
    for (const std::vector<double>& each : given_) {
      for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += each[i];
    }
    here_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&, round = round_] { return aborted_ || round_ != round; });
  }
  if (aborted_) return absl::AbortedError("another GPU's part failed");
  return sums_;
}

void PartSum::Abort() {
  const std::lock_guard lock(mu_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace paracord
