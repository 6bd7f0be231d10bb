// Removes the checkpoints that the core no longer keeps, and the directories of checkpoint rounds
// that failed. A removal that fails is tried again at the next call of Remove. In an object store
// the directory of a failed round is removed a second time, because a ps may have written a file
// there after the first removal. Owned by the coordinator; used on the executor.
//
// Invariant: the base of an increment (a checkpoint of what changed since its base) is removed only
// after the manifest of the increment. A failing disk can thus leave old checkpoints behind, but
// never an increment without its base.
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
  // The most names kept for another try. Others are dropped: the next coordinator finds them.
  static constexpr size_t kAgainMax = 64;

  // `files` outlives this object; `checkpoints` is the directory of the job's checkpoints.
  CheckpointRemover(Files& files, std::string checkpoints);

  // Removes `names`, of checkpoints and failed rounds; the caller lists each increment before its
  // base. Returns an error for each of `names` whose removal was tried and failed.
  std::vector<absl::Status> Remove(const std::vector<std::string>& names);

 private:
  struct Old {
    std::string name;
    std::string base;        // "": none (a full checkpoint), or not known
    bool base_known = true;  // false: a manifest exists, but cannot be read
    bool removed = false;    // whether a failed round's directory has been removed once
  };
  // Removes one directory. Adds `old` to again_ if another removal has to follow.
  absl::Status RemoveOne(Old& old);

  Files& files_;
  const std::string checkpoints_;
  std::vector<Old> again_;
  // Set during one call of Remove: the bases that stay because an increment could not be removed,
  // and, if the manifest of such an increment is unreadable, the increment's (generation, round):
  // every checkpoint before it stays.
  std::set<std::string> needed_;
  std::pair<uint64_t, uint64_t> needed_to_;
};

}  // namespace paracord
