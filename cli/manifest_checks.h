// Checks the options of `paracord render kubernetes` before manifests are written, so that no API
// server refuses the manifests later. Pure.
#pragma once

#include "absl/status/status.h"
#include "cli/manifests.h"

namespace paracord {

// INVALID_ARGUMENT names the flag of `paracord render` whose value Kubernetes would refuse as a
// name, label, annotation, selector, toleration or amount, is an amount too small for a daemon, or
// is the path of a file that would be lost with its pod.
absl::Status CheckManifestOptions(const ManifestOptions& options);

}  // namespace paracord
