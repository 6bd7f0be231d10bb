// The strategies of distributed training: which processes hold the variables, and whether an update
// is of one batch or of a round. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// The values of a job's key `strategy`; the last four are for clusters without ps.
inline constexpr std::string_view kStrategies[] = {"auto",       "parameter_server",
                                                   "one_device", "central_storage",
                                                   "mirrored",   "multi_worker_mirrored"};

// Whether the strategy is for clusters without ps, in which workers hold the variables.
bool IsWithoutPs(std::string_view strategy);
// Whether the strategy is for clusters with a single worker.
bool HasOneWorker(std::string_view strategy);
// Whether the strategy is always synchronous: another `consistency` in the job conflicts with it.
bool IsSynchronous(std::string_view strategy);

// Whether the job leaves open if it has rounds: it does not name its `consistency`, and its
// strategy is "auto" or "parameter_server". The chosen strategy, or the job in the directory, then
// decides. Until then nobody knows whether the job's keys about rounds, such as `round_batches`,
// are a mistake.
bool WaitsForStrategy(const GuaranteesSpec& guarantees);
// Returns the settings (KEY=VALUE) with which a job is read again once its strategy is chosen:
// "strategy=" and `chosen` if that strategy is without ps, else "consistency=async" if keys about
// rounds are still unchecked. Empty if the first reading has checked everything.
std::vector<std::string> SettingsOf(const GuaranteesSpec& guarantees, const std::string& chosen);

// The facts about a cluster that decide which strategies the cluster can run.
struct ClusterShape {
  size_t ps = 0;
  size_t workers = 0;
  size_t devices = 1;  // number of devices of each worker
  // True if the devices of a worker divide each batch among them ("cuda:all"), in place of
  // computing lanes of a round.
  bool divides_batches = false;
  // Whether messages name the flags --ps and --workers or, if false, the keys of TF_CONFIG.
  bool by_flags = false;
};

struct StrategyChoice {
  std::string name;  // one of kStrategies, not "auto"
  std::string why;   // a sentence without its full stop
};

// Returns the strategy of a job. INVALID_ARGUMENT names the keys of job and cluster that conflict.
// In a cluster without ps, several workers or devices train under `parameter_server` if the
// strategy is "auto" and the job says "async": the workers hold the variables. Devices that compute
// the stages of a model count as one.
absl::StatusOr<StrategyChoice> ChooseStrategy(const GuaranteesSpec& guarantees, ClusterShape shape);

// Called with the `guarantees` of a job that was read with its chosen strategy. INVALID_ARGUMENT
// names `consistency` and --device if the several devices of a worker are to compute lanes of
// rounds, but the job has no rounds.
absl::Status CheckDevices(const GuaranteesSpec& guarantees, const ClusterShape& shape);

// INVALID_ARGUMENT if a job has `copies` and the cluster has fewer than two ps. The error names
// `copies`, and the strategy if that is without ps, else the key cluster.ps or the flag --ps.
absl::Status CheckCopies(const Job& job, const ClusterShape& shape);

// Returns the strategy of a job in training, and the reason for people: that of "auto", if "auto"
// would have led to the same strategy in this cluster, else "the job says so".
StrategyChoice ExplainStrategy(const GuaranteesSpec& guarantees, ClusterShape shape);

// Returns the setting by which a job that goes on keeps the `consistency` of `saved`, the job in
// the job's directory; its `recovery` follows from `consistency`. Empty if `said`, the job as a
// person gives it now, names `consistency` or a strategy that is always synchronous.
std::vector<std::string> KeptSettingsOf(const GuaranteesSpec& said, const GuaranteesSpec& saved);

// A job, and the strategy that was chosen for it in a cluster.
struct JobInCluster {
  Job job;
  StrategyChoice strategy;
};
using ReadJobFn = std::function<absl::StatusOr<Job>(std::span<const std::string> settings)>;
using SavedJobFn = std::function<std::optional<Job>()>;
// Reads a job for a cluster. `read` parses the job with settings (config/job_settings.h), and is
// called again if KeptSettingsOf or SettingsOf returns more. `saved` returns the job in the job's
// directory, if there is one. It is called if the job names no `consistency`: KeptSettingsOf then
// applies before a strategy is chosen. An error is one of `read`, ChooseStrategy, CheckDevices or
// CheckCopies.
absl::StatusOr<JobInCluster> ReadJobIn(const ClusterShape& shape,
                                       std::span<const std::string> settings, const ReadJobFn& read,
                                       const SavedJobFn& saved = nullptr);

}  // namespace paracord
