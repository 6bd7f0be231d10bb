// DIR/generation-<n>, by which a coordinator claims a generation (coordinator/generations.h). Since
// nobody else writes the same text, it also tells who has the same DIR: a directory that each host
// has for itself under one name holds no such file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

inline constexpr char kGenerationPrefix[] = "generation-";

// What the coordinator of that boot id writes into its claim.
std::string ClaimText(uint64_t generation, const std::string& boot_id);

// Whether `dir` holds the claim `text` of `generation`. Errors: the storage cannot say.
absl::StatusOr<bool> SeesClaim(Files& files, const std::string& dir, uint64_t generation,
                               const std::string& text);

}  // namespace paracord
