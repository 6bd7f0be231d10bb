// Decides which records a batch has: a pure function of the data plan and the batch's identity.
// Every worker finds the same records at any time. config/data_plan.h counts the batches.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

// A bijection of [0, n) that needs no memory: a Feistel network over the next power of two,
// repeated until the result is below n (Black, Rogaway: "Ciphers with arbitrary finite domains",
// 2002).
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key);  // n > 0
  uint64_t operator()(uint64_t position) const;

 private:
  uint64_t Encrypt(uint64_t x) const;

  uint64_t n_;
  uint64_t key_;
  int low_bits_ = 0, high_bits_ = 0;
};

bool SameBatch(const BatchId& a, const BatchId& b);

// Replaces `records` by the numbers of the batch's records; by none if the plan has no such batch.
// If the plan shuffles, every epoch has its own order.
void BatchRecords(const DataPlan& plan, const BatchId& id, std::vector<uint64_t>& records);

// Returns the key of all random choices in reading records in the batch's epoch.
uint64_t EpochKey(const DataPlan& plan, const BatchId& id);

// Returns the key of all random choices in computing the batch's gradients.
uint64_t BatchKey(const DataPlan& plan, const BatchId& id);

}  // namespace paracord
