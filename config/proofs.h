// Proofs that the coordinator has decided something, which it hands to a worker with a lease and
// which the worker shows to the ps. A rejection says that a batch is entered without its gradients,
// so that no worker can have a sound batch left out by itself; a lease's proof says that a split
// was leased in a generation, so that no worker can push what it was not given to compute. The end
// of the lease is not part of it. Each is HMAC-SHA256 of what it names, cut to 16 bytes, under a
// key that the coordinator draws and tells the ps alone when it adopts them. Where OpenSSL computes
// no HMAC, as under a rule that allows FIPS providers alone and without such a provider, a proof is
// "" and every proof is wrong. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/paracord.pb.h"

namespace paracord {

std::string RejectionOf(std::string_view key, const BatchId& batch);
std::string LeaseProofOf(std::string_view key, uint64_t generation, uint64_t epoch, uint64_t split);

// Whether the proof is that of the batch, or of its split; each wrong one takes as long.
bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch);
bool IsLeaseProof(std::string_view proof, std::string_view key, uint64_t generation,
                  const BatchId& batch);
// Whether they are the proofs of so many splits from the batch's on, one after another. `splits` is
// 1 at least.
bool AreLeaseProofs(std::string_view proofs, uint32_t splits, std::string_view key,
                    uint64_t generation, const BatchId& batch);

}  // namespace paracord
