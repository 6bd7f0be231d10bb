// DIR/generation-<n>, by which a coordinator claims a generation (coordinator/generations.h). Its
// text is unique, so it also shows which processes have the same DIR: a directory of that name
// which each host has for itself holds no such file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

inline constexpr char kGenerationPrefix[] = "generation-";

// Returns the text that the coordinator of that boot id writes into its claim.
std::string ClaimText(uint64_t generation, const std::string& boot_id);

// Whether `dir` holds the claim `text` of `generation`. An error says that the storage cannot tell.
absl::StatusOr<bool> SeesClaim(Files& files, const std::string& dir, uint64_t generation,
                               const std::string& text);

}  // namespace paracord
