// The random key of a batch: a pure function of the job's seed and the batch's identity, so that
// whoever computes a batch, and however often, draws the same dropout.
#pragma once

#include <cstdint>

#include "proto/paracord.pb.h"

namespace paracord {

inline uint64_t BatchKey(uint64_t seed, const BatchId& batch) {
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014), chained over the parts.
  const auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return mix(mix(mix(mix(seed) ^ batch.epoch()) ^ batch.split()) ^ batch.batch());
}

}  // namespace paracord
