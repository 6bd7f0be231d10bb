// Dead coordinators leave things half done below DIR/checkpoints: directories of rounds that were
// never committed, and of checkpoints without a manifest. Blocking, for the executor's thread.
//
// Whoever calls it has claimed `generation`; only older generations are touched. Their coordinators
// and ps may still live and write: each directory is renamed before its files are removed, so later
// operations on the old name fail and no half-removed directory is ever committed. In an object
// store, where nothing is renamed, the object REMOVED does the same: it is put into the round's
// directory before anything there is removed and stays for good, and a manifest whose round has it
// makes no checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// The name of a directory that is being removed begins with this; the name that it had follows.
inline constexpr char kLeftoverPrefix[] = "leftover-";

// Removes the directory of a checkpoint after this coordinator's commit failed for good, unless the
// commit succeeded after all. No ps writes there any more. Returns whether it stands, and then
// durably; after an error it may stand or not.
absl::StatusOr<bool> RemoveUncommitted(Files& files, const std::string& checkpoints,
                                       const std::string& name);

// Removes a checkpoint that others replace, or the directory of a round of our own that has failed.
// After an error it may be called again. `ended` says whether it is no checkpoint any more, for
// good: its manifest goes first, and nothing else is removed before that is durable.
absl::Status RemoveCheckpoint(Files& files, const std::string& checkpoints, const std::string& name,
                              bool& ended);

void RemoveLeftovers(Files& files, const std::string& checkpoints, uint64_t generation);

}  // namespace paracord
