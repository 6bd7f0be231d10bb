// Carries between ps the norms by which a synchronous job clips a round. In answers, a ps tells the
// sum of squares of each partition's mean gradient. Once all partitions have told the sums of a
// round, the next request carries the norms of all variables. Any worker that waits for the round
// may be first to carry them. Owned by the PsSession, used on the loop. No I/O.
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
  // `trained`: the number of trained partitions on all ps, without copies.
  NormsCarrier(size_t trained, uint32_t variables) : trained_(trained), variables_(variables) {}

  // The worker has a lease of the batch's split with this proof, which a ps demands with norms.
  void Leased(const BatchId& batch, std::string proof) {
    lease_ = batch;
    proof_ = std::move(proof);
  }
  // Takes the norms for an exchange that begins; nullopt: no norms are known.
  std::optional<RoundNorms> Begin();
  // A ps tells the sum of squares of a partition. Ignores values that are no sum of squares, and
  // older rounds that further holders of the partition tell.
  void Told(uint32_t variable, const PartitionState& state);
  // All ps have answered an exchange. True: a round waits for norms that no request has carried, so
  // the worker should exchange again at once.
  bool End(bool wanted);

 private:
  const size_t trained_;
  const uint32_t variables_;
  std::map<uint32_t, std::pair<uint64_t, PartitionSquares>> told_;  // (round, squares) by partition
  BatchId lease_;
  std::string proof_;  // the proof of `lease_`; "": there was no lease
  std::optional<RoundNorms> norms_;
  std::optional<uint64_t> carried_;  // the newest round whose norms were known
};

}  // namespace paracord
