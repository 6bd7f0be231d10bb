#include "data/batch_plan.h"

#include <bit>

#include "common/mix.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

constexpr int kRounds = 6;
// These keys separate the uses of the job's seed.
constexpr uint64_t kShuffleKey = 0x73687566666c65;
constexpr uint64_t kBatchKey = 0x6261746368;
constexpr uint64_t kEpochKey = 0x65706f6368;

uint64_t LowBits(uint64_t x, int bits) { return bits >= 64 ? x : x & ((uint64_t{1} << bits) - 1); }

}  // namespace

Permutation::Permutation(uint64_t n, uint64_t key) : n_(n), key_(key) {
  const int bits = n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t Permutation::Encrypt(uint64_t x) const {
  int low_bits = low_bits_, high_bits = high_bits_;
  uint64_t low = LowBits(x, low_bits), high = x >> low_bits;
  for (int round = 0; round < kRounds; ++round) {
    // The halves change places and, for an odd number of bits, widths.
    const uint64_t hash = Mix64(key_ + static_cast<uint64_t>(round), low);
    const uint64_t mixed = LowBits(high ^ hash, high_bits);
    high = low;
    low = mixed;
    std::swap(low_bits, high_bits);
  }
  return high << low_bits | low;
}

uint64_t Permutation::operator()(uint64_t position) const {
  if (n_ < 2) return 0;
  uint64_t x = position;
  do {
    x = Encrypt(x);
  } while (x >= n_);
  return x;
}

bool SameBatch(const BatchId& a, const BatchId& b) {
  return a.epoch() == b.epoch() && a.split() == b.split() && a.batch() == b.batch();
}

void BatchRecords(const DataPlan& plan, const BatchId& id, std::vector<uint64_t>& records) {
  records.clear();
  const uint32_t examples = BatchExamples(plan, id.split(), id.batch());
  if (examples == 0) return;
  const uint64_t first = BatchInEpoch(plan, id.split(), id.batch()) * plan.batch();
  const Permutation order(plan.records(), Mix64(Mix64(kShuffleKey, plan.seed()), id.epoch()));
  records.reserve(examples);
  for (uint64_t i = first; i < first + examples; ++i) {
    records.push_back(plan.shuffle() ? order(i) : i);
  }
}

uint64_t EpochKey(const DataPlan& plan, const BatchId& id) {
  return Mix64(Mix64(kEpochKey, plan.seed()), id.epoch());
}

uint64_t BatchKey(const DataPlan& plan, const BatchId& id) {
  return Mix64(Mix64(Mix64(Mix64(kBatchKey, plan.seed()), id.epoch()), id.split()), id.batch());
}

}  // namespace paracord
