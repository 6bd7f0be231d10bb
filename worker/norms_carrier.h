// Carries between ps the norms by which a synchronous job clips a round. In its answers, a ps tells
// for each of its partitions the sum of squares of the round's mean gradient. Once a worker knows
// the sums of all partitions, its next request carries the norms of all variables. Each worker that
// waits for the round does so, and the first to come counts. Owned by the PsSession, used on the
// event loop. No I/O.
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
  // `trained`: the number of trained partitions on all ps; a partition with copies counts once.
  NormsCarrier(size_t trained, uint32_t variables) : trained_(trained), variables_(variables) {}

  // The worker has a lease of the batch's split, with this proof. A ps demands both with norms.
  void Leased(const BatchId& batch, std::string proof) {
    lease_ = batch;
    proof_ = std::move(proof);
  }
  // An exchange begins. Returns the norms for its requests; nullopt: no norms are known.
  std::optional<RoundNorms> Begin();
  // A ps tells the sum of squares of a partition of `variable`. Ignores a value that is no sum of
  // squares, and an older round, which a further holder of the partition may tell.
  void Told(uint32_t variable, const PartitionState& state);
  // All ps have answered the exchange; `wanted`: a ps waits for norms. True: the next request will
  // carry norms that no request of this worker has carried, and should be sent at once.
  bool End(bool wanted);

 private:
  const size_t trained_;
  const uint32_t variables_;
  std::map<uint32_t, std::pair<uint64_t, PartitionSquares>> told_;  // (round, squares) by partition
  BatchId lease_;
  std::string proof_;  // the proof of `lease_`; "": there was no lease
  std::optional<RoundNorms> norms_;
  std::optional<uint64_t> carried_;  // the last round whose norms this worker has known
};

}  // namespace paracord
