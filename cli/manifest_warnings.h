// Says what a job's pods and claim on Kubernetes will lack: data, memory, room for checkpoints.
// Blocking reads of files, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "cli/manifests.h"
#include "common/files.h"
#include "config/job.h"

namespace paracord {

// Returns warnings about the objects of `job`, as it is in the cluster of `options`. Paths below
// `directory`, the job file's, are below /data in the pods.
std::vector<std::string> ManifestWarnings(Files& files, const Job& job,
                                          const std::string& directory,
                                          const ManifestOptions& options);

// Returns warnings about the claim that `paracord render storage` writes.
std::vector<std::string> StorageWarnings(Files& files, const Job& job,
                                         const ManifestOptions& options);

}  // namespace paracord
