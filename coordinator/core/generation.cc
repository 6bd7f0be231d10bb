#include "coordinator/core/generation.h"

#include "absl/strings/str_cat.h"
#include "coordinator/core/limits.h"

namespace paracord {

uint64_t Generation::BeginClaim() {
  claiming_ = true;
  return ++newest_;
}

Generation::Claim Generation::EndClaim(uint64_t generation, const absl::Status& status,
                                       int64_t now_ms) {
  claiming_ = false;
  if (absl::IsAlreadyExists(status)) return Claim::kLost;
  if (!status.ok()) {
    // The next claim tries this number again. If it was taken, even by this coordinator, the
    // coordinator has to look again.
    newest_ = generation - 1;
    claim_at_ms_ = now_ms + kRepeatMs;
    problem_ = absl::StrCat("no generation can be claimed: ", std::string(status.message()));
    return Claim::kFailed;
  }
  // The coordinators of the numbers in between may still write job.state under a number above our
  // last.
  const bool leapt = generation > claimed_ + 1;
  claimed_ = generation;
  problem_.clear();
  used_ = false;
  wanted_.clear();
  return leapt ? Claim::kLeapt : Claim::kNext;
}

}  // namespace paracord
