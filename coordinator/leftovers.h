// Removes what earlier coordinators left unfinished in the directory of a job's checkpoints:
// directories of rounds that were never committed, and of checkpoints without a manifest. Every
// function here blocks.
//
// The caller has claimed `generation`; RemoveLeftovers touches only directories of older
// generations, and those that an earlier coordinator has renamed. Coordinators and ps of older
// generations may still be alive and write: each directory is renamed before its files are removed,
// so later operations on the old name fail, and no half-removed directory is ever committed. In an
// object store, which cannot rename, the object REMOVED has the same effect: REMOVED is put into
// the round's directory before any other object is removed, and stays. A manifest written after
// REMOVED makes no checkpoint; if a manifest turns out to have been written before, REMOVED is
// taken away again.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// The prefix of a directory that is being removed; its former name follows.
inline constexpr char kLeftoverPrefix[] = "leftover-";

// Removes the directory of a checkpoint after this coordinator's commit failed for good. If the
// commit took effect after all, makes the checkpoint durable and returns true. The caller has to
// know that no ps writes to the directory any more. After an error it is not known whether the
// checkpoint exists.
absl::StatusOr<bool> RemoveUncommitted(Files& files, const std::string& checkpoints,
                                       const std::string& name);

// Removes a checkpoint that is no longer kept, or the directory of a failed round of this
// coordinator. May be called again after an error. The manifest of a checkpoint is removed first
// and durably; `ended` returns whether that has succeeded.
absl::Status RemoveCheckpoint(Files& files, const std::string& checkpoints, const std::string& name,
                              bool& ended);

void RemoveLeftovers(Files& files, const std::string& checkpoints, uint64_t generation);

}  // namespace paracord
