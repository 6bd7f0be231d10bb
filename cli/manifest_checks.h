// Checks the options of `paracord render` before manifests are written, so that no API server
// refuses the manifests later. Pure.
#pragma once

#include "absl/status/status.h"
#include "cli/manifests.h"

namespace paracord {

// INVALID_ARGUMENT names the flag of `paracord render` with a value that Kubernetes would refuse as
// a name, label, annotation, selector, toleration or amount; is an amount too small for a daemon or
// a checkpoint; or exports to a file that is lost with its pod or has a wrong ending.
absl::Status CheckManifestOptions(const ManifestOptions& options);

}  // namespace paracord
