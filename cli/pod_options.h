// What the flags of `paracord render kubernetes` say about all pods of a job: labels, the nodes
// where the pods may run, and the service account. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

struct PodOptions {
  std::string service_account, image_pull_secret, priority_class;  // empty: Kubernetes' default
  std::string image_pull_policy;  // Always, IfNotPresent or Never; empty: Kubernetes' default
  std::vector<std::string> labels, annotations, node_selectors;  // KEY=VALUE
  std::vector<std::string> tolerations;                          // KEY[=VALUE]:EFFECT
};

// INVALID_ARGUMENT names the flag with a policy, label, annotation, node selector or toleration
// that Kubernetes refuses, and the rule that the value breaks. CheckManifestOptions checks the
// names of objects.
absl::Status CheckPodOptions(const PodOptions& options);

// Returns the lines of YAML for the keys `pod`, `tolerations`, `pod-labels`, `annotations` and
// `pull-policy` of the manifests ("# render: KEY"); "" for a key without lines. CheckPodOptions has
// accepted `options`.
std::map<std::string, std::string> PodValues(const PodOptions& options);

}  // namespace paracord
