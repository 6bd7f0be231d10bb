// The file DIR/generation-<n>, with which a coordinator claims generation n
// (coordinator/generations.h), in DIR, the directory that all tasks of a job share. Each claim's
// text is unique: a process that finds the text in its DIR shares DIR with the claimant, and has no
// private directory of the same name.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

inline constexpr char kGenerationPrefix[] = "generation-";

// Returns the text of the claim of `generation` by the coordinator with `boot_id`.
std::string ClaimText(uint64_t generation, const std::string& boot_id);

// Returns whether `dir` has the claim `text` of `generation`; an error if the storage cannot tell.
absl::StatusOr<bool> SeesClaim(Files& files, const std::string& dir, uint64_t generation,
                               const std::string& text);

}  // namespace paracord
