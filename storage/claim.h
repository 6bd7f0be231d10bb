// The file DIR/generation-<n>, with which a coordinator claims a generation
// (coordinator/generations.h). The text is unique, so it also proves that two processes share DIR:
// a host's private directory with an equal name does not have the file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

inline constexpr char kGenerationPrefix[] = "generation-";

// Returns the text of the claim by the coordinator with `boot_id`.
std::string ClaimText(uint64_t generation, const std::string& boot_id);

// Returns whether `dir` holds the claim `text` of `generation`, or an error if the storage cannot
// tell.
absl::StatusOr<bool> SeesClaim(Files& files, const std::string& dir, uint64_t generation,
                               const std::string& text);

}  // namespace paracord
