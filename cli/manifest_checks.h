// Checks the options of `paracord render kubernetes` before manifests are written, so that no API
// server refuses the manifests later. Pure.
#pragma once

#include "absl/status/status.h"
#include "cli/manifests.h"

namespace paracord {

// INVALID_ARGUMENT names the flag of `paracord render` whose value is no name, label, annotation,
// selector, toleration or amount of Kubernetes, is too small for a daemon, or is a file that is
// lost with its pod.
absl::Status CheckManifestOptions(const ManifestOptions& options);

}  // namespace paracord
