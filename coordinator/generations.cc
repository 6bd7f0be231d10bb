#include "coordinator/generations.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "coordinator/core/job_state.h"
#include "coordinator/leftovers.h"
#include "proto/protocol.h"
#include "storage/checkpoint.h"
#include "storage/claim.h"

namespace paracord {

absl::StatusOr<std::vector<uint64_t>> NumbersOf(Files& files, const std::string& dir,
                                                const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    uint64_t number = 0;
    if (name.starts_with(prefix) && absl::SimpleAtoi(name.substr(prefix.size()), &number) &&
        number < kGenerationMax) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<uint64_t> NewestGeneration(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> claimed, NumbersOf(files, dir, kGenerationPrefix));
  return claimed.empty() ? 0 : claimed.back();
}

absl::StatusOr<uint64_t> NewestMentioned(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(uint64_t newest, NewestGeneration(files, dir));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states, NumbersOf(files, dir, kStatePrefix));
  if (!states.empty()) newest = std::max(newest, states.back());
  const auto names = files.List(CheckpointsDirectory(dir));
  if (absl::IsNotFound(names.status())) return newest;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::string_view leftover(kLeftoverPrefix);
    const bool taken = name.starts_with(leftover);
    const auto generation = GenerationOf(taken ? name.substr(leftover.size()) : name);
    if (generation.value_or(0) < kGenerationMax) newest = std::max(newest, generation.value_or(0));
  }
  return newest;
}

absl::Status Claim(Files& files, const std::string& dir, uint64_t generation,
                   const std::string& boot_id) {
  const std::string path = absl::StrCat(dir, "/", kGenerationPrefix);
  RETURN_IF_ERROR(
      files.CreateExclusive(absl::StrCat(path, generation), ClaimText(generation, boot_id)));
  FAILPOINT("coordinator.generation.claimed");
  // Only the last few claims matter; older files are removed.
  constexpr uint64_t kKeep = 8;
  if (generation > kKeep) (void)files.RemoveTree(absl::StrCat(path, generation - kKeep));
  return absl::OkStatus();
}

absl::Status CheckNewestGeneration(Files& files, const std::string& dir, uint64_t generation) {
  ASSIGN_OR_RETURN(const uint64_t newest, NewestGeneration(files, dir));
  if (newest <= generation) return absl::OkStatus();
  PROBE("coordinator.superseded.after_write");
  return absl::AbortedError(absl::StrCat("another coordinator has claimed generation ", newest));
}

}  // namespace paracord
