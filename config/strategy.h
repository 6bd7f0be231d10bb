// The strategies of distributed training: in which processes the variables are, and whether an
// update is of one batch or of a round. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// The values of a job's key `strategy`; the last four are of clusters without ps.
inline constexpr std::string_view kStrategies[] = {"auto",       "parameter_server",
                                                   "one_device", "central_storage",
                                                   "mirrored",   "multi_worker_mirrored"};

// Whether workers hold the variables, so that the cluster has no ps.
bool IsWithoutPs(std::string_view strategy);
// Whether training is synchronous under the strategy, whatever else the job says.
bool IsSynchronous(std::string_view strategy);

// Whether the cluster will say if the job has rounds, so that keys of rounds are no mistake yet.
bool WaitsForStrategy(const GuaranteesSpec& guarantees);
// Returns the settings by which a job is read once more when its strategy is chosen, so that it is
// checked as if it had said so itself; none if there is nothing to add.
std::vector<std::string> SettingsOf(const GuaranteesSpec& guarantees, const std::string& chosen);

// What of a cluster decides which strategy it can run.
struct ClusterShape {
  size_t ps = 0;
  size_t workers = 0;  // that the cluster names
  size_t devices = 1;  // of each worker
};

struct StrategyChoice {
  std::string name;  // one of kStrategies, not "auto"
  std::string why;   // a sentence without its full stop
};

// Returns the strategy of a job. INVALID_ARGUMENT names the job's key and the cluster's if they do
// not fit each other. A job that says itself that it is asynchronous keeps `parameter_server` in a
// cluster of workers alone, which hold the variables in place of ps.
absl::StatusOr<StrategyChoice> ChooseStrategy(const GuaranteesSpec& guarantees,
                                              const ClusterShape& shape);

// Reads a job for a cluster: `read` gets the settings (config/job_settings.h), and where these
// leave the strategy open, is called again with what was chosen.
struct JobInCluster {
  Job job;
  StrategyChoice strategy;
};
using ReadJobFn = std::function<absl::StatusOr<Job>(std::span<const std::string> settings)>;
absl::StatusOr<JobInCluster> ReadJobIn(const ClusterShape& shape,
                                       std::span<const std::string> settings,
                                       const ReadJobFn& read);

}  // namespace paracord
