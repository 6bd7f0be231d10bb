// Finds the damage of a job's checkpoints and of their bases: damaged or missing files, and deltas
// that do not continue the state in their base. Reads each checkpoint once, however many others
// continue it. Blocking; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint.h"

namespace paracord {

class DamageFinder {
 public:
  // `whole`: reads every byte, and compares each delta with its base; else checks only manifests,
  // file sizes, and that bases have the partitions of their deltas. `files` must outlive the
  // finder.
  DamageFinder(Files& files, bool whole) : files_(files), whole_(whole) {}

  // Returns the faults of the checkpoint in `directory` and of its bases; empty if there are none.
  std::vector<absl::Status> Find(const std::string& directory);

 private:
  struct Seen {
    absl::StatusOr<Manifest> manifest = absl::UnknownError("not read");
    std::vector<absl::Status> damage;  // in the checkpoint's own files
    TableStates tables;                // states of tables in undamaged files; empty unless `whole`
  };
  const Seen& Look(const std::string& directory);

  Files& files_;
  const bool whole_;
  std::map<std::string, Seen> seen_;  // keyed by directory
};

}  // namespace paracord
