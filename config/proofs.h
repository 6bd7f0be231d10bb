// Proofs of the coordinator's decisions. The coordinator hands a proof to a worker with a lease,
// and the worker shows the proof to the ps. A rejection proves that a batch is to be entered
// without gradients: a worker alone cannot have a sound batch left out. A lease's proof proves that
// a split was leased in a generation: a worker cannot push a split that nobody gave it. The lease's
// end is not proven. Each proof is HMAC-SHA256 of the proven facts, cut to 16 bytes, under a key
// that the coordinator draws and tells only the ps, in its request Adopt. Where OpenSSL computes no
// HMAC (a rule that allows only FIPS providers, and none installed), proofs are "" and every proof
// is wrong. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/paracord.pb.h"

namespace paracord {

std::string RejectionOf(std::string_view key, const BatchId& batch);
std::string LeaseProofOf(std::string_view key, uint64_t generation, uint64_t epoch, uint64_t split);

// Whether `rejection` is the rejection of the batch, and whether `proof` is the proof of the lease
// of the batch's split. Proofs are compared in constant time.
bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch);
bool IsLeaseProof(std::string_view proof, std::string_view key, uint64_t generation,
                  const BatchId& batch);
// Whether `proofs` concatenates the lease proofs of `splits` consecutive splits, from the batch's
// split on. `splits` is from 1 to kLanesMax.
bool AreLeaseProofs(std::string_view proofs, uint32_t splits, std::string_view key,
                    uint64_t generation, const BatchId& batch);

}  // namespace paracord
