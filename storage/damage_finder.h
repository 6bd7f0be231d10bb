// Finds the damage of the checkpoints of one job, each with those that it continues: files that are
// damaged or missing, and links that do not continue what their base holds. A checkpoint is looked
// at once, however many continue it. Blocking; not thread-safe.
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
  // `whole`: every byte is read, and what each link says that it continues is compared with its
  // base. Otherwise manifests and the sizes of files are looked at. `files` outlives this object.
  DamageFinder(Files& files, bool whole) : files_(files), whole_(whole) {}

  // Returns what is wrong with the checkpoint in `directory`; nothing if it is sound.
  std::vector<absl::Status> Find(const std::string& directory);

 private:
  struct Seen {
    absl::StatusOr<Manifest> manifest = absl::UnknownError("not read");
    std::vector<absl::Status> damage;  // of its own files
    TableStates tables;                // of the files without damage
  };
  const Seen& Look(const std::string& directory);

  Files& files_;
  const bool whole_;
  std::map<std::string, Seen> seen_;  // by directory
};

}  // namespace paracord
