// Fills in the manifests of deploy/kubernetes, embedded at build time, for a job. A line that ends
// with "# render: KEY" holds a setting, which a value replaces and an empty value removes; a line
// with nothing else marks where lines may be inserted. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/pod_options.h"
#include "config/job.h"

namespace paracord {

// The name of the base's objects, claims and directories, which KubernetesManifests replaces by the
// job's.
inline constexpr std::string_view kExampleName = "fashion-mnist";

// The memory of a pod that holds variables, and the size of a claim, where no flag says another.
inline constexpr char kMemoryDefault[] = "4Gi", kStorageDefault[] = "10Gi";

// "<name>-coordinator-12345" is a label, limited to 63 bytes.
inline constexpr size_t kObjectNameBytesMax = 40;

extern const char k_storage_manifest[];
extern const char k_coordinator_manifest[];
extern const char k_ps_manifest[];
extern const char k_worker_manifest[];
extern const char k_leader_manifest[];
extern const char k_nodes_manifest[];
extern const char k_export_manifest[];
extern const char k_network_manifest[];
extern const char k_autoscaler_manifest[];
extern const char k_monitors_manifest[];
extern const char k_pods_manifest[];
extern const char k_metrics_manifest[];

struct ManifestOptions {
  std::string name;  // the objects' name
  uint64_t ps = 2;   // 0: the workers hold the variables
  uint64_t workers = 2;
  uint64_t gpus = 0;        // for each worker
  bool programs = false;    // workers run the job's command
  bool tls = false;         // with the certificates of Secrets, by role
  std::string export_to;    // a file for the variables when the job is done; empty: none
  bool http = false;        // the coordinator shows its page
  bool monitoring = false;  // all daemons show metrics, which the Prometheus operator scrapes
  // The holders of variables are an Indexed Job, which ends with the job, or a StatefulSet.
  bool ps_job = true;
  // Workers are a Deployment on nodes that may vanish, which an autoscaler makes larger and
  // smaller if they have no GPUs.
  bool spot = false;
  std::string queue;       // Kueue's queue, which admits the Jobs; empty: no queue
  uint64_t ttl_s = 0;      // time until finished Jobs are removed; 0: never
  std::string name_space;  // empty: kubectl's own
  PodOptions pods;
  std::string cpu, memory;                  // for each worker; empty: the base's
  std::string ps_cpu, ps_memory;            // for each ps
  std::string storage_size, storage_class;  // for a new claim
  std::string image;
  std::string storage;  // a claim, or the URL of object storage; empty: the claim `name`
  std::string data;     // a claim, mounted at /data; empty: the image has the data
};

// Returns `text` with the example's name replaced by `name`, and each marked line by the entry of
// `values` for its key: the value of the setting, or the lines to put in. FAILED_PRECONDITION: a
// key of `text` is neither in `values` nor optional.
absl::StatusOr<std::string> FillIn(std::string_view text, const std::string& name,
                                   const std::map<std::string, std::string>& values);

// Turns `text` into a valid name for objects, and for pods with a number appended; "" if no
// character is valid.
std::string ObjectName(std::string_view text);

// Returns the claim `name` for checkpoints, which outlives the objects of the job, as YAML.
absl::StatusOr<std::string> StorageManifest(const ManifestOptions& options);

// Returns all objects that a job needs, except the claim, as one YAML stream. Paths below
// `directory` (that of the job file) become paths below /data in the pods. INVALID_ARGUMENT: the
// job does not fit into a ConfigMap.
absl::StatusOr<std::string> KubernetesManifests(const Job& job, const std::string& directory,
                                                const ManifestOptions& options);

}  // namespace paracord
