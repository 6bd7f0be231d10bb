// Carries norms of gradients between ps, in a synchronous job that clips the mean gradient of a
// round by norm. In its answers, a ps tells the sum of squares of the mean gradient of each of its
// partitions. Once a worker knows the sums of all partitions, the worker's next requests carry the
// sums of whole variables to every ps. Each worker that waits for the round does this; a ps uses
// the first that arrives. Owned by the PsSession, used on the event loop. No I/O.
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
  // `trained`: how many trained partitions all ps together have; one with copies counts once.
  NormsCarrier(size_t trained, uint32_t variables) : trained_(trained), variables_(variables) {}

  // The worker has a lease of the batch's split. `proof`: Lease.proof. A ps takes norms only
  // together with such a batch and proof.
  void Leased(const BatchId& batch, std::string proof) {
    lease_ = batch;
    proof_ = std::move(proof);
  }
  // An exchange begins. Returns the norms that its requests carry; nullopt: none.
  std::optional<RoundNorms> Begin();
  // A ps has told the sum of squares of a partition of `variable`. Ignores a negative sum, NaN, and
  // an older round than another ps with a copy of the partition has told.
  void Told(uint32_t variable, const PartitionState& state);
  // All ps have answered the exchange. `wanted`: a ps waits for norms. True: the next requests will
  // carry norms of a round whose norms this worker has not carried, and should be sent at once.
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
