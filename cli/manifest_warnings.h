// Warns of what a job's pods and its claim of a volume on Kubernetes will lack: data, memory, room
// for checkpoints. Blocking reads of files, in main's thread.
#pragma once

#include <string>
#include <vector>

#include "cli/manifests.h"
#include "common/files.h"
#include "config/job.h"

namespace paracord {

// Returns warnings about the pods that run `job` with `options`. `directory` is the folder of the
// job file; files below `directory` are expected below /data in the pods.
std::vector<std::string> ManifestWarnings(Files& files, const Job& job,
                                          const std::string& directory,
                                          const ManifestOptions& options);

// Returns warnings about the claim that `paracord render storage` writes.
std::vector<std::string> StorageWarnings(Files& files, const Job& job,
                                         const ManifestOptions& options);

}  // namespace paracord
