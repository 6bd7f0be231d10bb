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

// Whether only the cluster decides if a job has rounds: the job does not name its `consistency`,
// and its strategy is "auto" or "parameter_server". Until the strategy is chosen, nobody knows
// whether the job's keys about rounds, such as `round_batches`, are a mistake.
bool WaitsForStrategy(const GuaranteesSpec& guarantees);
// Returns the settings with which a job is read again once its strategy is chosen. This reading
// checks the job as if its file named the strategy, or the `consistency` that follows. Empty if the
// first reading has checked everything.
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
// names `consistency` and --device if workers have several devices, which compute lanes of rounds,
// but the job has no rounds.
absl::Status CheckDevices(const GuaranteesSpec& guarantees, const ClusterShape& shape);

// INVALID_ARGUMENT names `copies`, and the strategy or the cluster's key, if a job has `copies` and
// the cluster has fewer than two ps.
absl::Status CheckCopies(const Job& job, const ClusterShape& shape);

// Returns the strategy of a job in training, and the reason for people: the cluster, if the cluster
// would have led a job with the strategy "auto" to this strategy, else the job.
StrategyChoice ExplainStrategy(const GuaranteesSpec& guarantees, ClusterShape shape);

// Returns the setting by which a continued job keeps the `consistency`, and so the `recovery`, of
// `saved`, the job in its directory. Empty if `said`, the job as a person gives it now, names
// `consistency` or a strategy that is always synchronous.
std::vector<std::string> KeptSettingsOf(const GuaranteesSpec& said, const GuaranteesSpec& saved);

// A job, and the strategy that was chosen for it in a cluster.
struct JobInCluster {
  Job job;
  StrategyChoice strategy;
};
using ReadJobFn = std::function<absl::StatusOr<Job>(std::span<const std::string> settings)>;
using SavedJobFn = std::function<std::optional<Job>()>;
// Reads a job for a cluster. `read` parses the job with settings (config/job_settings.h). ReadJobIn
// calls `read` again with further settings: the saved job's `consistency`, and the chosen strategy.
// `saved` returns the job that the directory holds, if any; it is called if the job names no
// `consistency`, which is then the saved job's, whatever the cluster would choose. An error is one
// of `read`, ChooseStrategy, CheckDevices or CheckCopies.
absl::StatusOr<JobInCluster> ReadJobIn(const ClusterShape& shape,
                                       std::span<const std::string> settings, const ReadJobFn& read,
                                       const SavedJobFn& saved = nullptr);

}  // namespace paracord
