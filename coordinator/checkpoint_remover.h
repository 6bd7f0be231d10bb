// Removes checkpoints that newer ones replace, and the directories of checkpoint rounds that
// failed. A removal that fails is tried again at the next call of Remove. In an object store the
// directory of a failed round is removed a second time, because a ps may have written a file there
// after the first removal. Owned by the coordinator; used only on the executor, whose thread it
// blocks.
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
  // The most names that are kept for another try. Of more names the last are left for the next
  // coordinator.
  static constexpr size_t kAgainMax = 64;

  // `files` outlives this object; `checkpoints` is the directory of the job's checkpoints.
  CheckpointRemover(Files& files, std::string checkpoints);

  // Removes `names`, of checkpoints and failed rounds; the caller lists each increment before its
  // base. Returns an error for each of `names` that could not be removed.
  std::vector<absl::Status> Remove(const std::vector<std::string>& names);

 private:
  struct Old {
    std::string name;
    std::string base;        // "": a full checkpoint, or an unknown base
    bool base_known = true;  // false: a manifest exists, but cannot be read
    bool removed = false;    // true: a failed round's directory, removed once already
  };
  // Removes one name, or keeps it for another try.
  absl::Status RemoveOne(Old& old);

  Files& files_;
  const std::string checkpoints_;
  std::vector<Old> again_;
  // Used during one Remove: the bases that stay because an increment could not be removed. Where
  // the manifest of an increment is unreadable, every checkpoint before its (generation, round)
  // stays.
  std::set<std::string> needed_;
  std::pair<uint64_t, uint64_t> needed_to_;
};

}  // namespace paracord
