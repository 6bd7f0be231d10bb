#include "coordinator/core/work_claims.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/core/limits.h"

namespace paracord {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

uint64_t Times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

// Workers report many times in so many seconds.
constexpr double kReportSecondsMax = 1e6;

absl::Status Refuse(const std::string& what) {
  return absl::InvalidArgumentError(what + ", which cannot be: the report is not counted");
}

}  // namespace

absl::Status WorkClaims::Add(const WorkRequest& report, const DataPlan& plan, uint64_t batches,
                             double elapsed_seconds) {
  // An earlier session of the task may have left work unreported.
  const uint64_t most = granted + Times(LeasesOfSessionMax(plan), plan.split_batches());
  const auto beyond = [](uint64_t before, uint64_t more, uint64_t limit) {
    return more > limit - std::min(before, limit);
  };
  if (beyond(computed, report.computed(), most)) {
    return Refuse(absl::StrCat("it says that it computed ", report.computed(),
                               " batches more, after ", computed, " of the ", granted,
                               " that it was given"));
  }
  if (beyond(duplicates, report.duplicates(), most)) {
    return Refuse(absl::StrCat("it says that ", report.duplicates(), " batches came twice, of the ",
                               granted, " that it was given"));
  }
  if (beyond(samples, report.samples(), Times(most, plan.batch()))) {
    return Refuse(absl::StrCat("it says that it computed ", report.samples(),
                               " samples more, after ", samples, " in the ", granted,
                               " batches that it was given"));
  }
  if (beyond(staleness_sum, report.staleness_sum(), Times(most, batches))) {
    return Refuse(
        absl::StrCat("it says that its values were ", report.staleness_sum(), " updates old"));
  }
  uint64_t tells = 0;
  for (const TrainedBatches& trained : report.trained()) {
    tells += static_cast<uint64_t>(trained.losses_size());
  }
  if (beyond(told, tells, most)) {
    return Refuse(absl::StrCat("it tells of ", tells, " batches more, after ", told, " of the ",
                               granted, " that it was given"));
  }
  // A loss is a float32.
  const double largest = static_cast<double>(std::numeric_limits<float>::max());
  if (!(std::abs(report.loss_sum()) <= static_cast<double>(most) * largest)) {
    return Refuse(absl::StrCat("it says that its losses sum up to ", report.loss_sum()));
  }
  for (const double seconds : {report.compute_seconds(), report.waited_seconds()}) {
    if (seconds >= 0 && seconds <= kReportSecondsMax) continue;
    return Refuse(absl::StrCat("it says that it computed for ", report.compute_seconds(),
                               " s and waited for ", report.waited_seconds(), " s"));
  }
  computed += report.computed();
  told += tells;
  duplicates += report.duplicates();
  samples += report.samples();
  staleness_sum += report.staleness_sum();
  waited_seconds += std::min(report.waited_seconds(), elapsed_seconds);
  return absl::OkStatus();
}

}  // namespace paracord
