#include "storage/claim.h"

#include "absl/strings/str_cat.h"

namespace paracord {

std::string ClaimText(uint64_t generation, const std::string& boot_id) {
  return absl::StrCat("generation ", generation, boot_id.empty() ? "" : " of coordinator ", boot_id,
                      "\n");
}

absl::StatusOr<bool> SeesClaim(Files& files, const std::string& dir, uint64_t generation,
                               const std::string& text) {
  const absl::StatusOr<std::string> found =
      files.ReadWhole(absl::StrCat(dir, "/", kGenerationPrefix, generation));
  if (absl::IsNotFound(found.status())) return false;
  if (!found.ok()) return found.status();
  return *found == text;
}

}  // namespace paracord
