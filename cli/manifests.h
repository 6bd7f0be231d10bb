// Fills in the manifests of deploy/kubernetes, which are embedded at build time, for a job. In a
// manifest, a line "KEY_IN_YAML: SETTING # render: KEY" gets the value for KEY in place of SETTING;
// an empty value removes the line. A line that is only "# render: KEY" is replaced by the lines of
// the value. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/pod_options.h"
#include "config/job.h"

namespace paracord {

// The name in deploy/kubernetes (of objects, claims and folders) that the job's name replaces.
inline constexpr std::string_view kExampleName = "fashion-mnist";

// The memory of a pod with variables, and the size of the claim of a volume, if no flag gives it.
inline constexpr char kMemoryDefault[] = "4Gi", kStorageDefault[] = "10Gi";

// The longest name of objects: with "-coordinator-12345" appended it still fits into a label, which
// has at most 63 bytes.
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
  // The file or URL to which the variables are exported when the job is done; empty: no export.
  std::string export_to;
  bool http = false;        // the coordinator shows its status page
  bool monitoring = false;  // all daemons show metrics, which the Prometheus operator scrapes
  // The processes that hold variables are an Indexed Job, which ends with the training; false: they
  // are a StatefulSet.
  bool ps_job = true;
  // The workers are a Deployment that prefers nodes which may vanish. If the workers have no GPUs,
  // an autoscaler changes their number.
  bool spot = false;
  std::string queue;       // Kueue's queue, which admits the Jobs; empty: no queue
  uint64_t ttl_s = 0;      // seconds until finished Jobs are removed; 0: never
  std::string name_space;  // empty: the namespace that kubectl is set to
  PodOptions pods;
  std::string cpu, memory;  // of each worker; empty: as in deploy/kubernetes
  // Of each ps; empty: kMemoryDefault of memory, and CPUs as in deploy/kubernetes.
  std::string ps_cpu, ps_memory;
  std::string storage_size, storage_class;  // of the claim that StorageManifest writes
  std::string image;
  std::string storage;  // claim or URL for checkpoints; empty: the claim `name`
  std::string data;     // claim to mount at /data; empty: the image has the data
};

// Returns `text` with kExampleName replaced by `name`, and each line with a "# render: KEY" filled
// in from `values`. If `values` lacks the KEY, a line whose KEY is optional (manifests.cc lists
// them) keeps its setting, and any other line is FAILED_PRECONDITION.
absl::StatusOr<std::string> FillIn(std::string_view text, const std::string& name,
                                   const std::map<std::string, std::string>& values);

// Makes of `text` a valid name for objects, of kObjectNameBytesMax bytes at most; "" if no
// character of `text` is valid.
std::string ObjectName(std::string_view text);

// Returns, as YAML, the claim of a volume for checkpoints, which outlives the objects of the job.
absl::StatusOr<std::string> StorageManifest(const ManifestOptions& options);

// Returns, as one YAML stream, all objects that a job needs, except the claim. Paths in the job
// below `directory`, the folder of the job file, become paths below /data in the pods.
// INVALID_ARGUMENT: the job does not fit into a ConfigMap.
absl::StatusOr<std::string> KubernetesManifests(const Job& job, const std::string& directory,
                                                const ManifestOptions& options);

}  // namespace paracord
