// Which coordinator leads the job: a coordinator claims a generation by creating the file
// generation-<n> in the job's directory, and the newest claim leads. Every function here blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "storage/claim.h"

namespace paracord {

// Returns the numbers n of the entries "<prefix><n>" in `dir`, ascending; numbers from
// kGenerationMax on are ignored.
absl::StatusOr<std::vector<uint64_t>> NumbersOf(Files& files, const std::string& dir,
                                                const std::string& prefix);

// The newest claimed generation; 0 before the first claim.
absl::StatusOr<uint64_t> NewestGeneration(Files& files, const std::string& dir);

// The newest generation mentioned in `dir`: by claims, job.state-<n>, or the names of checkpoints
// and rounds, which a person may have copied without the claims. 0 if no generation is mentioned.
absl::StatusOr<uint64_t> NewestMentioned(Files& files, const std::string& dir);

// Claims `generation` for the process `boot_id`. ALREADY_EXISTS: the generation was claimed before.
absl::Status Claim(Files& files, const std::string& dir, uint64_t generation,
                   const std::string& boot_id);

// ABORTED: a generation newer than `generation` is claimed. Called after a write and before anybody
// acts on the write: a coordinator that claims its generation after this check sees the write, one
// that claimed before may not.
absl::Status CheckNewestGeneration(Files& files, const std::string& dir, uint64_t generation);

}  // namespace paracord
