#include "config/strategy.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

std::string Counted(size_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// How many ps, or workers, the cluster has, and where that is said.
std::string CountText(const ClusterShape& shape, size_t count, const char* role) {
  if (shape.by_flags) {
    return absl::StrCat("--", role, std::string_view(role) == "ps" ? "" : "s", " is ", count);
  }
  const std::string names = count == 0                       ? "none"
                            : std::string_view(role) == "ps" ? absl::StrCat(count, " ps")
                                                             : Counted(count, role);
  return absl::StrCat("the cluster names ", names, " (key cluster.", role, ")");
}

StrategyChoice Automatic(const GuaranteesSpec& guarantees, const ClusterShape& shape) {
  if (shape.ps > 0) return {"parameter_server", CountText(shape, shape.ps, "ps")};
  const bool several = shape.workers > 1 || shape.devices > 1;
  if (several && guarantees.consistency_said && !guarantees.sync()) {
    return {"parameter_server",
            "the job is asynchronous (key consistency), and the cluster's workers hold the "
            "variables in place of ps"};
  }
  if (shape.workers > 1) {
    return {"multi_worker_mirrored",
            shape.by_flags ? absl::StrCat("--workers is ", shape.workers, " and --ps is 0")
                           : absl::StrCat("the cluster names ", Counted(shape.workers, "worker"),
                                          " and no ps")};
  }
  if (shape.devices > 1) {
    return {"mirrored", absl::StrCat("the one worker has ", Counted(shape.devices, "device"))};
  }
  return {"one_device", "the cluster has one worker with one device, and no ps"};
}

}  // namespace

bool IsWithoutPs(std::string_view strategy) {
  return strategy != "auto" && strategy != "parameter_server";
}

bool IsSynchronous(std::string_view strategy) {
  return IsWithoutPs(strategy) && strategy != "one_device";
}

bool HasOneWorker(std::string_view strategy) {
  return IsWithoutPs(strategy) && strategy != "multi_worker_mirrored";
}

bool WaitsForStrategy(const GuaranteesSpec& guarantees) {
  return !IsWithoutPs(guarantees.strategy) && !guarantees.consistency_said;
}

std::vector<std::string> SettingsOf(const GuaranteesSpec& guarantees, const std::string& chosen) {
  if (IsWithoutPs(guarantees.strategy)) return {};
  if (IsWithoutPs(chosen)) return {"strategy=" + chosen};
  const bool of_rounds = guarantees.round_batches.has_value() || guarantees.reduce_fast ||
                         guarantees.backup_factor.has_value() ||
                         guarantees.cross_device_ops != CrossDeviceOps::kAuto;
  if (of_rounds && WaitsForStrategy(guarantees)) return {"consistency=async"};
  return {};
}

absl::StatusOr<StrategyChoice> ChooseStrategy(const GuaranteesSpec& guarantees,
                                              ClusterShape shape) {
  if (guarantees.stages.count > 1) shape.devices = 1;
  const std::string& strategy = guarantees.strategy;
  if (shape.ps == 0 && shape.workers == 0) {
    return absl::InvalidArgumentError(
        "the cluster names neither ps (key cluster.ps) nor workers (key cluster.worker), so that "
        "nobody holds the variables");
  }
  if (strategy == "auto") return Automatic(guarantees, shape);
  const std::string said = absl::StrCat("strategy: is ", strategy);
  if (strategy == "parameter_server") {
    if (shape.ps > 0) return StrategyChoice{strategy, "the job says so"};
    return absl::InvalidArgumentError(
        absl::StrCat(said, ", which needs ps, and ", CountText(shape, 0, "ps"),
                     ": add them, or give \"multi_worker_mirrored\", with which workers hold the "
                     "variables"));
  }
  if (shape.ps > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(said, ", which has no ps, and ", CountText(shape, shape.ps, "ps"),
                     ": leave them out, or give \"parameter_server\""));
  }
  if (HasOneWorker(strategy) && shape.workers > 1) {
    return absl::InvalidArgumentError(absl::StrCat(said, ", which is of one worker, and ",
                                                   CountText(shape, shape.workers, "worker"),
                                                   ": give \"multi_worker_mirrored\""));
  }
  if (strategy == "one_device" && shape.devices > 1) {
    return absl::InvalidArgumentError(absl::StrCat(said, ", and --device names ", shape.devices,
                                                   ": name one, or give \"mirrored\""));
  }
  return StrategyChoice{strategy, "the job says so"};
}

absl::Status CheckDevices(const GuaranteesSpec& guarantees, const ClusterShape& shape) {
  const bool one = shape.devices <= 1 || shape.divides_batches || guarantees.stages.count > 1;
  if (one || guarantees.rounds()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("consistency: is \"async\", and --device names ",
                                                 shape.devices,
                                                 " devices, which compute the lanes of a round: "
                                                 "name one device, or give `consistency` \"sync\" "
                                                 "or {\"staleness\": S}"));
}

absl::Status CheckCopies(const Job& job, const ClusterShape& shape) {
  if (job.partitioner.copies == 0 || shape.ps > 1) return absl::OkStatus();
  constexpr absl::string_view kIs = "copies: is 1, which gives each partition two ps, and ";
  if (IsWithoutPs(job.guarantees.strategy)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kIs, "strategy is \"", job.guarantees.strategy,
                     "\", which has none: leave copies out, or give \"parameter_server\""));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kIs, CountText(shape, shape.ps, "ps"),
      shape.ps == 0 ? ": leave copies out, or add ps" : ": add a second ps, or leave copies out"));
}

StrategyChoice ExplainStrategy(const GuaranteesSpec& guarantees, ClusterShape shape) {
  if (guarantees.stages.count > 1) shape.devices = 1;
  // A job that was read for its cluster names the strategy that the cluster led to.
  GuaranteesSpec unsaid = guarantees;
  unsaid.strategy = "auto";
  unsaid.consistency_said = unsaid.consistency_said && !guarantees.sync();
  StrategyChoice choice = Automatic(unsaid, shape);
  if (guarantees.strategy == "auto" || choice.name == guarantees.strategy) return choice;
  return {guarantees.strategy, "the job says so"};
}

std::vector<std::string> KeptSettingsOf(const GuaranteesSpec& said, const GuaranteesSpec& saved) {
  if (said.consistency_said || IsSynchronous(said.strategy)) return {};
  if (!saved.staleness.has_value()) return {"consistency=" + saved.consistency};
  return {absl::StrCat("consistency={\"staleness\": ", *saved.staleness, "}")};
}

absl::StatusOr<JobInCluster> ReadJobIn(const ClusterShape& shape,
                                       std::span<const std::string> settings, const ReadJobFn& read,
                                       const SavedJobFn& saved) {
  JobInCluster result;
  std::vector<std::string> all(settings.begin(), settings.end());
  // Returns the job as read with more settings, or the error with the reason for these.
  const auto read_with = [&](std::vector<std::string> more,
                             const std::string& why) -> absl::StatusOr<Job> {
    all.insert(all.end(), more.begin(), more.end());
    absl::StatusOr<Job> job = read(all);
    if (job.ok()) return job;
    return absl::Status(job.status().code(),
                        absl::StrCat(std::string(job.status().message()), " (", why, ")"));
  };
  ASSIGN_OR_RETURN(result.job, read(all));
  const bool open = !result.job.guarantees.consistency_said;
  const std::optional<Job> before = open && saved != nullptr ? saved() : std::nullopt;
  if (before.has_value()) {
    std::vector<std::string> kept = KeptSettingsOf(result.job.guarantees, before->guarantees);
    if (!kept.empty()) {
      const std::string why = absl::StrCat("the job in its directory has ", kept.front(),
                                           ", which goes on where the job file does not say it");
      ASSIGN_OR_RETURN(result.job, read_with(std::move(kept), why));
    }
  }
  ASSIGN_OR_RETURN(result.strategy, ChooseStrategy(result.job.guarantees, shape));
  RETURN_IF_ERROR(CheckCopies(result.job, shape));  // names a strategy that the job itself says
  std::vector<std::string> more = SettingsOf(result.job.guarantees, result.strategy.name);
  if (!more.empty()) {
    const std::string why =
        absl::StrCat("strategy is ", result.strategy.name, ", because ", result.strategy.why);
    ASSIGN_OR_RETURN(result.job, read_with(std::move(more), why));
  }
  RETURN_IF_ERROR(CheckDevices(result.job.guarantees, shape));
  return result;
}

}  // namespace paracord
