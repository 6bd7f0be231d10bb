// Removes the checkpoints that newer ones replace, and the directories of rounds that failed. What
// cannot be removed is tried again with the next ones, and the directory of a round in an object
// store is looked at once more, since a ps may have gone on writing. Owned by the coordinator, and
// used on the executor alone, whose thread it blocks.
//
// Invariant: no base is removed before the manifests of its increments. A failing disk can thus
// leave old checkpoints behind, but never an increment without its base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

class CheckpointRemover {
 public:
  // Names that are tried again; of more the newest are left for the next coordinator to find.
  static constexpr size_t kAgainMax = 64;

  // `files` outlives this object; `checkpoints` is the directory of the checkpoints.
  CheckpointRemover(Files& files, std::string checkpoints);

  // Removes the named checkpoints; the caller lists each increment before its base. Returns an
  // error for each that cannot be removed now and was not tried before.
  std::vector<absl::Status> Remove(const std::vector<std::string>& names);

 private:
  struct Old {
    std::string name;
    std::string base;        // its base, if the manifest was readable
    bool base_known = true;  // false: its manifest cannot be read, and is there
    bool removed = false;    // once; it is a round's directory in an object store
  };
  // Removes one, or notes that it is to be tried again.
  absl::Status RemoveOne(Old& old);

  Files& files_;
  const std::string checkpoints_;
  std::vector<Old> again_;
  // In one Remove, by checkpoints that could not be removed: these, and all that are older than
  // this generation and round.
  std::set<std::string> needed_;
  std::pair<uint64_t, uint64_t> needed_to_;
};

}  // namespace paracord
