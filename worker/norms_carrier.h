// Carries the norms by which a synchronous job clips a round, between ps that have its partitions:
// in their answers they tell the sum of squares of each partition's mean, and once all partitions
// have told that of one round, the next request has the norms of all variables. Any worker that
// waits for the round may be the first to do so. Owned by the PsSession, used on the loop. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "exchange/round_norms.h"
#include "proto/paracord.pb.h"

namespace paracord {

class NormsCarrier {
 public:
  // `trained`: partitions, of all ps, each once.
  NormsCarrier(size_t trained, uint32_t variables) : trained_(trained), variables_(variables) {}

  // The worker has a lease of the batch's split, with this proof, which norms need.
  void Leased(const BatchId& batch, std::string proof) {
    lease_ = batch;
    proof_ = std::move(proof);
  }
  // Takes the norms for an exchange that begins; nullopt: none are known.
  std::optional<RoundNorms> Begin();
  // A ps tells this of a partition. A sum of squares that is none is ignored, and of those that
  // several holders tell so are older rounds.
  void Told(uint32_t variable, const PartitionState& state);
  // All ps have answered. True: a round waits for norms that were carried to nobody yet, so the
  // worker asks again at once.
  bool End(bool wanted);

 private:
  const size_t trained_;
  const uint32_t variables_;
  std::map<uint32_t, std::pair<uint64_t, PartitionSquares>> told_;  // with the round, by partition
  BatchId lease_;
  std::string proof_;  // of that; "": there was none
  std::optional<RoundNorms> norms_;
  std::optional<uint64_t> carried_;  // the newest round whose norms were known
};

}  // namespace paracord
