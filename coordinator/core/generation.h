// The generation that this coordinator leads: the number claimed in the job's directory (DIR), and
// whether the coordinator needs a new number. To adopt a ps is to have it obey a generation; a ps
// obeys the newest one that adopted it, so requests still in flight from an older generation are
// refused. Owned by the core, which reports the start and end of claims, and asks before it adopts
// a ps or writes to DIR. Emits no effects.
//
// Invariants: claimed() never falls, newest() is never below it, and at most one claim is under
// way. A generation is used once a ps was told to load or training ran in it; a restarted ps is
// never adopted in a used generation.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paracord {

class Generation {
 public:
  // `claimed` is the generation that was claimed for this coordinator before the core began.
  explicit Generation(uint64_t claimed) : claimed_(claimed), newest_(claimed) {}

  uint64_t claimed() const { return claimed_; }
  // The newest number that this coordinator has claimed, is claiming or has skipped.
  uint64_t newest() const { return newest_; }
  bool claiming() const { return claiming_; }
  bool used() const { return used_; }
  // For people: why a new generation has to be claimed; empty: the present one will do.
  const std::string& wanted() const { return wanted_; }
  // For people: why no generation could be claimed; empty if the last claim did not fail.
  const std::string& problem() const { return problem_; }

  // Called when a ps is told to load, or training begins, in this generation.
  void Use() { used_ = true; }
  // Requests a new generation because of `why`: a push that may be under way has to be refused, or
  // ps that have loaded a checkpoint have to load another.
  void Want(const std::string& why) { wanted_ = why; }
  // A ps obeys generation `obeyed`, which nobody has claimed in DIR: the next claim is obeyed + 1.
  void Skip(uint64_t obeyed) { newest_ = obeyed; }

  // Whether the pause after a failed claim is over.
  bool MayClaim(int64_t now_ms) const { return now_ms >= claim_at_ms_; }
  // Begins a claim and returns the number to claim. No claim may be under way.
  uint64_t BeginClaim();

  // The outcome of a claim. kLost: the number is claimed already, so another coordinator leads.
  // kFailed: the storage failed; the number is tried again after a pause. kLeapt: the claim
  // succeeded, but numbers since this coordinator's previous claim were left out, and other
  // coordinators may have claimed them.
  enum class Claim { kNext, kLeapt, kLost, kFailed };
  Claim EndClaim(uint64_t generation, const absl::Status& status, int64_t now_ms);

 private:
  uint64_t claimed_;
  uint64_t newest_;
  bool claiming_ = false;
  bool used_ = false;
  std::string wanted_;
  int64_t claim_at_ms_ = 0;  // no claim begins before this time
  std::string problem_;
};

}  // namespace paracord
