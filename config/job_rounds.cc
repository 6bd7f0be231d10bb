#include "config/job_rounds.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kStalenessMax = 1000;

}  // namespace

void ReadRounds(JsonFields& fields, Problems& problems, Job& job) {
  GuaranteesSpec& guarantees = job.guarantees;
  const json* const consistency = fields.Find("consistency");
  if (consistency != nullptr && consistency->is_object()) {
    JsonFields inner(*consistency, "consistency", problems);
    uint32_t staleness = 0;
    if (inner.Find("staleness") == nullptr) inner.Problem("staleness", "is missing");
    inner.Integer("staleness", 0, kStalenessMax, staleness);
    inner.ReportUnknown();
    guarantees.staleness = staleness;
  } else {
    static constexpr std::string_view kConsistency[] = {"async"};
    fields.OneOf("consistency", kConsistency, guarantees.consistency);
  }
  if (fields.FindValue("round_batches") != nullptr) {
    fields.Integer("round_batches", 1, kLanesMax, guarantees.round_batches.emplace(1));
  }
  if (guarantees.round_batches.has_value() && !guarantees.staleness.has_value()) {
    fields.Problem("round_batches",
                   "is of jobs with rounds, and `consistency` is \"async\", which has none: give "
                   "`consistency` {\"staleness\": S}, or leave round_batches out");
  }
  if (job.split_batches.has_value() && guarantees.staleness.has_value()) {
    fields.Problem("split_batches",
                   "is of jobs without rounds, and `consistency` has a staleness: an epoch is cut "
                   "into `round_batches` lanes; leave split_batches out");
  }
}

json ConsistencyToJson(const GuaranteesSpec& guarantees) {
  if (guarantees.staleness.has_value()) return {{"staleness", *guarantees.staleness}};
  return guarantees.consistency;
}

absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t workers) {
  if (!job.guarantees.staleness.has_value()) return 0;
  if (job.guarantees.round_batches.has_value()) return *job.guarantees.round_batches;
  if (workers == 0) {
    return absl::InvalidArgumentError(
        "round_batches: is missing, and the cluster (key cluster.worker) names no worker, whose "
        "number it is otherwise: give it");
  }
  if (workers <= kLanesMax) return static_cast<uint32_t>(workers);
  return absl::InvalidArgumentError(
      absl::StrCat("round_batches: is missing, and the cluster (key cluster.worker) names ",
                   workers, " workers, more than a round has batches, ", kLanesMax, ": give it"));
}

}  // namespace paracord
