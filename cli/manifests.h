// Fills in the manifests of deploy/kubernetes, embedded at build time, for a job. A line that ends
// with "# render: KEY" holds a setting: the value for KEY replaces the setting, and an empty value
// removes the line. Where a line is nothing but "# render: KEY", the value's lines are inserted.
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/pod_options.h"
#include "config/job.h"

namespace paracord {

// The name that KubernetesManifests replaces in deploy/kubernetes: of objects, claims and folders.
inline constexpr std::string_view kExampleName = "fashion-mnist";

// The memory of a pod that holds variables, and the size of a volume claim, if no flag gives it.
inline constexpr char kMemoryDefault[] = "4Gi", kStorageDefault[] = "10Gi";

// The longest name of objects: with an appended "-coordinator-12345" it is still a label, which has
// at most 63 bytes.
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
  std::string name;  // name of the objects
  uint64_t ps = 2;   // 0: the workers hold the variables
  uint64_t workers = 2;
  uint64_t gpus = 0;      // for each worker
  bool programs = false;  // workers may run the program of the job
  bool tls = false;       // daemons use TLS, with a Secret of certificates for each role
  // A file or URL to which the variables are exported at the end; empty: none.
  std::string export_to;
  bool http = false;        // the coordinator shows its status page
  bool monitoring = false;  // all daemons show metrics, which the Prometheus operator scrapes
  // The holders of variables are an Indexed Job, which ends with the training; false: a
  // StatefulSet.
  bool ps_job = true;
  // Workers are a Deployment on nodes that may vanish, which an autoscaler makes larger and
  // smaller if they have no GPUs.
  bool spot = false;
  std::string queue;       // Kueue's queue, which admits the Jobs; empty: no queue
  uint64_t ttl_s = 0;      // seconds until finished Jobs are removed; 0: never
  std::string name_space;  // empty: the one that kubectl is set to
  PodOptions pods;
  std::string cpu, memory;  // for each worker; empty: as in deploy/kubernetes
  // For each ps; empty: kMemoryDefault, and CPUs as in deploy/kubernetes.
  std::string ps_cpu, ps_memory;
  std::string storage_size, storage_class;  // size and class of the claim by StorageManifest
  std::string image;
  std::string storage;  // claim or URL with checkpoints; empty: the claim `name`
  std::string data;     // claim that is mounted at /data; empty: the image has the data
};

// Returns `text` with kExampleName replaced by `name`, and each marked line by the value of its key
// in `values`. A line whose key is optional (manifests.cc has a list) stays as it is if `values`
// lacks the key. FAILED_PRECONDITION: `values` lacks another key.
absl::StatusOr<std::string> FillIn(std::string_view text, const std::string& name,
                                   const std::map<std::string, std::string>& values);

// Turns `text` into a valid name for objects, of kObjectNameBytesMax bytes at most; "" if no
// character is valid.
std::string ObjectName(std::string_view text);

// Returns the claim `name` for checkpoints, which outlives the objects of the job, as YAML.
absl::StatusOr<std::string> StorageManifest(const ManifestOptions& options);

// Returns all objects that a job needs, except the claim, as one YAML stream. Paths below
// `directory` (which has the job file) become paths below /data in the pods. INVALID_ARGUMENT: the
// job does not fit into a ConfigMap.
absl::StatusOr<std::string> KubernetesManifests(const Job& job, const std::string& directory,
                                                const ManifestOptions& options);

}  // namespace paracord
