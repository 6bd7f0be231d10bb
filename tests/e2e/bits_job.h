// Jobs that end with equal values, slots and ledgers in every run, bit by bit, and the digest to
// compare runs with. The jobs are synchronous, with rounds of four lanes and one thread for each
// batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord::e2e {

inline constexpr uint64_t kBitsBatches = 11;  // an epoch, in three rounds
inline constexpr uint64_t kBitsLanes = 4;

struct BitsCase {
  nlohmann::json job;           // patch of the counting job
  std::vector<uint64_t> shape;  // shape of an example
  bool ids = false;             // examples are ids
};

BitsCase Perceptron();    // batch normalization and dropout, trained by Adam
BitsCase Convolution();   // trained by SGD with momentum
BitsCase GrowingTable();  // ids in an expiring table, trained by Adam

// Writes the examples into the directory `root`.
void WriteBitsData(const std::string& root, const BitsCase& of);

// Returns the SHA-256 of all partitions in the last checkpoint in `dir`.
std::string BitsOf(const std::string& dir);

}  // namespace paracord::e2e
