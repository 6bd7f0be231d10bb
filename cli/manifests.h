// The manifests of deploy/kubernetes/base, embedded when this is built, and how they become those
// of a job. A line that ends with "# render: KEY" is a setting whose value may be replaced, and a
// line that is nothing else is where lines may be put in. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// Of the example's objects, claims and directories; each is the job's name elsewhere.
inline constexpr std::string_view kExampleName = "fashion-mnist";

extern const char k_storage_manifest[];
extern const char k_coordinator_manifest[];
extern const char k_ps_manifest[];
extern const char k_worker_manifest[];
extern const char k_network_manifest[];

struct ManifestOptions {
  std::string name;  // of the objects
  uint64_t ps = 2;
  uint64_t workers = 2;
  uint64_t gpus = 0;  // of each worker
  std::string image;
  std::string storage;  // a claim, or the URL of object storage; empty: a new claim
  std::string data;     // a claim, mounted at /data; empty: the image has the data
};

// `text` with the example's name replaced by `name`, and each marked line whose key `values` has
// replaced by that: the value of the setting, or the lines to put in. FAILED_PRECONDITION: a key of
// the text is unknown (it has to be in `values` or in `known`).
absl::StatusOr<std::string> FillIn(std::string_view text, const std::string& name,
                                   const std::map<std::string, std::string>& values);

// A name that objects, and pods with a number behind it, may have; "" if `text` has nothing of it.
std::string ObjectName(std::string_view text);

// One YAML stream of all that a job needs. `directory` of the job file: what lies below it is below
// /data in the pods. INVALID_ARGUMENT: it does not fit.
absl::StatusOr<std::string> KubernetesManifests(const Job& job, const std::string& directory,
                                                const ManifestOptions& options);

}  // namespace paracord
