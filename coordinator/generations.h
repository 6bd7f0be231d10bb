// Who leads: a coordinator claims a generation by creating DIR/generation-<n>, and of all that
// claimed one the newest leads. Free functions over the file seam, run on the executor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "storage/claim.h"

namespace paracord {

// The n of all names "<prefix><n>" in `dir` that are generations, ascending: those of
// kGenerationMax and above are not.
absl::StatusOr<std::vector<uint64_t>> NumbersOf(Files& files, const std::string& dir,
                                                const std::string& prefix);

// 0 before the first claim.
absl::StatusOr<uint64_t> NewestGeneration(Files& files, const std::string& dir);

// The newest that anything in `dir` tells of: claims, job.state-<n>, and the names of checkpoints
// and rounds, which are there without the claims if somebody has copied them. 0: nothing does.
absl::StatusOr<uint64_t> NewestMentioned(Files& files, const std::string& dir);

// For the coordinator of that boot id. ALREADY_EXISTS: another one has it.
absl::Status Claim(Files& files, const std::string& dir, uint64_t generation,
                   const std::string& boot_id);

// After a write and before anybody acts on it: a coordinator that claimed a newer generation before
// this check may have read DIR before the write (ABORTED); a coordinator that claims later will see
// the write.
absl::Status CheckNewestGeneration(Files& files, const std::string& dir, uint64_t generation);

}  // namespace paracord
