#include "config/job_rounds.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "config/data_plan.h"
#include "config/strategy.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kStalenessMax = 1000;

constexpr std::pair<CrossDeviceOps, std::string_view> kCrossDeviceOps[] = {
    {CrossDeviceOps::kAuto, "auto"},
    {CrossDeviceOps::kNccl, "nccl"},
    {CrossDeviceOps::kHierarchicalCopy, "hierarchical_copy"},
    {CrossDeviceOps::kReductionToOneDevice, "reduction_to_one_device"}};

std::string_view NameOf(CrossDeviceOps ops) {
  for (const auto& [each, name] : kCrossDeviceOps) {
    if (each == ops) return name;
  }
  return "";
}

// Reads how the lanes of a worker are added up.
void ReadReduction(JsonFields& fields, GuaranteesSpec& guarantees) {
  constexpr std::string_view kReduce[] = {"exact", "fast"};
  std::string reduce = "exact";
  fields.OneOf("reduce", kReduce, reduce);
  guarantees.reduce_fast = reduce == "fast";
  std::vector<std::string_view> names;
  for (const auto& [ops, name] : kCrossDeviceOps) names.push_back(name);
  std::string chosen = "auto";
  fields.OneOf("cross_device_ops", names, chosen);
  for (const auto& [ops, name] : kCrossDeviceOps) {
    if (name == chosen) guarantees.cross_device_ops = ops;
  }
}

// Reports the keys that only jobs with rounds may have.
void ReportWithoutRounds(JsonFields& fields, const GuaranteesSpec& guarantees) {
  if (guarantees.round_batches.has_value() && !guarantees.rounds()) {
    fields.Problem("round_batches",
                   "is of jobs with rounds, and `consistency` is \"async\", which has none: give "
                   "`consistency` \"sync\" or {\"staleness\": S}, or leave round_batches out");
  }
  if (guarantees.backup_factor.has_value() && !guarantees.sync()) {
    fields.Problem(
        "backup",
        "has lanes computed twice that a round waits for, and only `consistency` \"sync\" "
        "has rounds that wait: leave backup out");
  }
  if (guarantees.reduce_fast && !guarantees.sync()) {
    fields.Problem(
        "reduce",
        "says how the lanes of a round are added up, and only `consistency` \"sync\" adds "
        "some: leave reduce out");
  }
  if (guarantees.cross_device_ops != CrossDeviceOps::kAuto && !guarantees.sync()) {
    fields.Problem("cross_device_ops",
                   "says how the devices of a worker add up the lanes of a round, and only "
                   "`consistency` \"sync\" adds some: leave cross_device_ops out");
  }
}

// Reports the job's keys that conflict with `consistency`.
void ReportMisfits(JsonFields& fields, const Job& job) {
  const GuaranteesSpec& guarantees = job.guarantees;
  if (IsSynchronous(guarantees.strategy) && !guarantees.sync()) {
    fields.Problem("consistency",
                   absl::StrCat("is not \"sync\", and `strategy` \"", guarantees.strategy,
                                "\" is synchronous: leave consistency out, or give another "
                                "strategy"));
  }
  if (!WaitsForStrategy(guarantees)) ReportWithoutRounds(fields, guarantees);
  if (guarantees.cross_device_ops == CrossDeviceOps::kNccl && !guarantees.reduce_fast) {
    fields.Problem("cross_device_ops",
                   "\"nccl\" adds in an order of its own, by which bits depend on the number of "
                   "devices: give `reduce` \"fast\", or \"hierarchical_copy\" here");
  }
  if (job.split_batches.has_value() && guarantees.rounds()) {
    const bool by_strategy = !guarantees.consistency_said;
    const std::string said =
        by_strategy ? absl::StrCat("`strategy` \"", guarantees.strategy, "\"")
        : guarantees.sync()
            ? std::string("`consistency` \"sync\"")
            : absl::StrCat("`consistency` {\"staleness\": ", *guarantees.staleness, "}");
    fields.Problem("split_batches",
                   absl::StrCat("does not go with ", said,
                                ", which cuts epochs into rounds of `round_batches` batches: leave "
                                "split_batches out (--set split_batches=null), or give ",
                                by_strategy ? "another strategy" : "`consistency` \"async\""));
  }
  if (!guarantees.sync()) return;
  if (job.overlap) {
    fields.Problem("overlap",
                   "computes on values of one round less, and `consistency` \"sync\" allows none: "
                   "leave overlap out, or give `consistency` {\"staleness\": 1}");
  }
  if (job.compression.kind != CompressionSpec::Kind::kNone) {
    fields.Problem("compression",
                   "keeps a remainder of each gradient with the worker that computed it, and with "
                   "`consistency` \"sync\" no bit may depend on who did: leave it out; `wire` "
                   "\"bf16\" halves the bytes");
  }
}

}  // namespace

void ReadRounds(JsonFields& fields, Problems& problems, Job& job) {
  GuaranteesSpec& guarantees = job.guarantees;
  fields.OneOf("strategy", kStrategies, guarantees.strategy);
  if (IsSynchronous(guarantees.strategy)) guarantees.consistency = "sync";
  const json* const consistency = fields.Find("consistency");
  guarantees.consistency_said = consistency != nullptr;
  if (consistency != nullptr && consistency->is_object()) {
    JsonFields inner(*consistency, "consistency", problems);
    uint32_t staleness = 0;
    if (inner.Find("staleness") == nullptr) inner.Problem("staleness", "is missing");
    inner.Integer("staleness", 0, kStalenessMax, staleness);
    inner.ReportUnknown();
    guarantees.staleness = staleness;
    guarantees.consistency = "async";
  } else if (consistency != nullptr) {
    if (*consistency == "async" || *consistency == "sync") {
      guarantees.consistency = consistency->get<std::string>();
    } else {
      fields.Problem("consistency",
                     absl::StrCat(R"(must be "async", "sync" or {"staleness": S}, is )",
                                  JsonExcerpt(*consistency)));
    }
  }
  if (guarantees.sync()) guarantees.recovery = "rollback";
  const std::string_view recovery[] = {guarantees.recovery};
  fields.OneOf("recovery", recovery, guarantees.recovery);
  if (fields.FindValue("round_batches") != nullptr) {
    fields.Integer("round_batches", 1, kLanesMax, guarantees.round_batches.emplace(1));
  }
  if (const json* const backup = fields.FindValue("backup"); backup != nullptr) {
    JsonFields inner(*backup, "backup", problems);
    inner.Number("factor", 1.1, 100, guarantees.backup_factor.emplace(2));
    inner.ReportUnknown();
  }
  ReadReduction(fields, guarantees);
  ReportMisfits(fields, job);
}

void GuaranteesToJson(const GuaranteesSpec& guarantees, json& job) {
  if (guarantees.strategy != "auto") job["strategy"] = guarantees.strategy;
  job["consistency"] = guarantees.consistency;
  if (guarantees.staleness.has_value()) {
    job["consistency"] = {{"staleness", *guarantees.staleness}};
  }
  job["recovery"] = guarantees.recovery;
  if (guarantees.round_batches.has_value()) job["round_batches"] = *guarantees.round_batches;
  if (guarantees.backup_factor.has_value()) job["backup"] = {{"factor", *guarantees.backup_factor}};
  if (guarantees.threads.has_value()) job["threads"] = *guarantees.threads;
  if (guarantees.reduce_fast) job["reduce"] = "fast";
  if (guarantees.cross_device_ops != CrossDeviceOps::kAuto) {
    job["cross_device_ops"] = NameOf(guarantees.cross_device_ops);
  }
}

absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t devices) {
  if (!job.guarantees.rounds()) return 0;
  if (job.guarantees.round_batches.has_value()) return *job.guarantees.round_batches;
  if (devices == 0) {
    return absl::InvalidArgumentError(
        "round_batches: is missing, and the cluster (key cluster.worker) names no worker, by whose "
        "devices it is chosen otherwise: give it");
  }
  if (devices <= kLanesMax) return static_cast<uint32_t>(devices);
  return absl::InvalidArgumentError(
      absl::StrCat("round_batches: is missing, and the workers that the cluster (key "
                   "cluster.worker) names have ",
                   devices, " devices, more than a round has batches, ", kLanesMax, ": give it"));
}

}  // namespace paracord
