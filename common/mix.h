// A pure hash of integers and texts, equal on every machine: for shuffling and other random
// choices, for fingerprints, and for hash tables. A table whose keys strangers choose must mix in a
// secret, too.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

// A step of splitmix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014).
inline uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline uint64_t Mix64(uint64_t a, uint64_t b) { return Mix64(Mix64(a) ^ b); }

inline uint64_t Mix64(uint64_t a, std::string_view text) {
  uint64_t hash = Mix64(a, text.size());
  for (const char c : text) hash = Mix64(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace paracord
