// Proofs of the coordinator's decisions. The coordinator hands a proof to a worker with a lease,
// and the worker shows the proof to the ps. A rejection proves that a batch is to be entered
// without gradients: a worker alone cannot have a sound batch left out. A lease's proof proves that
// a split was leased in a generation: a worker cannot push a split that nobody gave it. A lease's
// proof does not prove that the lease still lasts.
//
// A proof is HMAC-SHA256 of the proven facts, cut to 16 bytes. The coordinator draws the key and
// tells it only the ps, in its request Adopt. If OpenSSL computes no HMAC (a rule allows only FIPS
// providers, and none is installed), proofs are "" and every proof is wrong. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/paracord.pb.h"

namespace paracord {

std::string RejectionOf(std::string_view key, const BatchId& batch);
std::string LeaseProofOf(std::string_view key, uint64_t generation, uint64_t epoch, uint64_t split);

// IsRejection: whether `rejection` is the rejection of the batch. IsLeaseProof: whether `proof` is
// the proof of the lease of the batch's split. Proofs are compared in constant time.
bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch);
bool IsLeaseProof(std::string_view proof, std::string_view key, uint64_t generation,
                  const BatchId& batch);
// Whether `proofs` is the lease proofs, one after another, of `splits` consecutive splits, of which
// the batch's split is the first. `splits` is from 1 to kLanesMax.
bool AreLeaseProofs(std::string_view proofs, uint32_t splits, std::string_view key,
                    uint64_t generation, const BatchId& batch);

}  // namespace paracord
