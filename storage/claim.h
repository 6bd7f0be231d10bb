// The file DIR/generation-<n>, with which a coordinator claims generation n
// (coordinator/generations.h). DIR is the directory of the job, which all its tasks share. The text
// of a claim has the coordinator's boot id: a process that finds the text in its DIR sees the
// coordinator's directory, and not a private one of the same name.
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
