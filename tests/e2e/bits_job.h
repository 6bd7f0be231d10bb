// Jobs whose values, slots and ledgers have to be the same to the bit in every run, and the digest
// of these. A run is synchronous in rounds of four lanes, with one thread a batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord::e2e {

inline constexpr uint64_t kBitsBatches = 11;  // of an epoch, in three rounds

struct BitsCase {
  nlohmann::json job;           // a patch of the counting job
  std::vector<uint64_t> shape;  // of an example
  bool ids = false;             // which its numbers are
};

BitsCase Perceptron();    // with moving averages and dropout, trained by Adam
BitsCase Convolution();   // by SGD with momentum
BitsCase GrowingTable();  // of ids, by Adam, with rows that expire

// Writes the examples below the cluster's root.
void WriteBitsData(const std::string& root, const BitsCase& of);

// Returns the SHA-256 of all that the last checkpoint in `dir` has of the job's partitions.
std::string BitsOf(const std::string& dir);

}  // namespace paracord::e2e
