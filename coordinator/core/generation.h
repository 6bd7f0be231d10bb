// The generation that this coordinator leads: the number claimed in DIR, and whether the
// coordinator needs a new number. A ps obeys the newest generation that adopted it, so a new
// generation fences requests still in flight from the previous generation. Owned by the core, which
// reports claims that begin and end, and asks before it adopts a ps or writes to DIR. It emits
// nothing itself.
//
// Invariants: claimed() never falls, newest() is never below it, and only one claim is under way at
// a time. A generation in which a ps was told to load, or in
// which training ran, is used: a new life of a ps is never adopted in it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paracord {

class Generation {
 public:
  // `claimed` was claimed for this coordinator before the core began.
  explicit Generation(uint64_t claimed) : claimed_(claimed), newest_(claimed) {}

  uint64_t claimed() const { return claimed_; }
  // The newest number that this coordinator has claimed or is claiming.
  uint64_t newest() const { return newest_; }
  bool claiming() const { return claiming_; }
  bool used() const { return used_; }
  // Why the next generation is to be claimed, for people; empty if this one will do.
  const std::string& wanted() const { return wanted_; }
  // Why the last claim failed, for people; empty if it did not.
  const std::string& problem() const { return problem_; }

  // A ps has been ordered to load, or training begins.
  void Use() { used_ = true; }
  // The next generation is to be claimed, because of `why`: a push may be under way that only a new
  // one keeps out, or all ps are to load another checkpoint.
  void Want(const std::string& why) { wanted_ = why; }
  // A ps obeys `obeyed`, which nobody has claimed in DIR: the next claim is of the one after it.
  void Skip(uint64_t obeyed) { newest_ = obeyed; }

  // Whether the pause after a claim that failed is over.
  bool MayClaim(int64_t now_ms) const { return now_ms >= claim_at_ms_; }
  // Begins a claim and returns the number that is to be claimed. No claim may be under way.
  uint64_t BeginClaim();

  // How a claim ended. kLost: another coordinator has the number, and leads. kFailed: the number is
  // tried again after a pause. kLeapt: it is ours, and others have claimed numbers before it.
  enum class Claim { kNext, kLeapt, kLost, kFailed };
  Claim EndClaim(uint64_t generation, const absl::Status& status, int64_t now_ms);

 private:
  uint64_t claimed_;
  uint64_t newest_;
  bool claiming_ = false;
  bool used_ = false;
  std::string wanted_;
  int64_t claim_at_ms_ = 0;  // after a claim that failed
  std::string problem_;
};

}  // namespace paracord
