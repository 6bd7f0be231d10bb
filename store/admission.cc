#include "store/admission.h"

#include <algorithm>
#include <bit>
#include <span>

#include "common/counter_random.h"
#include "common/mix.h"

namespace paracord {
namespace {

constexpr uint64_t kBucket = 8;

uint32_t CountOf(uint32_t candidate) { return candidate & 0xff; }

uint64_t CandidatesKept(uint32_t after, uint64_t candidates) {
  return after > 1 ? std::bit_ceil(std::max(candidates, kBucket)) : 0;
}

}  // namespace

Admission::Admission(uint32_t after, double probability, uint64_t candidates, uint64_t seed)
    : after_(std::min(after, kAfterMax)), probability_(probability), seed_(seed) {
  candidates_.resize(CandidatesKept(after, candidates));
}

uint64_t Admission::BytesOf(uint32_t after, uint64_t candidates) {
  return CandidatesKept(after, candidates) * sizeof(uint32_t);
}

bool Admission::Admit(uint64_t id, uint64_t step) {
  if (after_ > 1 && Count(id) < after_) return false;
  return probability_ >= 1 || RandomUniform(Mix64(seed_, id), step) < probability_;
}

uint32_t Admission::Count(uint64_t id) {
  const uint64_t hash = Mix64(seed_ ^ id);
  const uint64_t buckets = candidates_.size() / kBucket;
  const auto bucket = std::span(candidates_).subspan((hash & (buckets - 1)) * kBucket, kBucket);
  const uint32_t mark = static_cast<uint32_t>(hash >> 40) << 8;
  size_t at = kBucket;
  for (size_t i = 0; i < kBucket; ++i) {
    if (CountOf(bucket[i]) != 0 && (bucket[i] & ~uint32_t{0xff}) == mark) at = i;
  }
  uint32_t count = 1;
  if (at < kBucket) {
    count = std::min(CountOf(bucket[at]) + 1, kAfterMax);
  } else {
    at = 0;
    for (size_t i = 1; i < kBucket; ++i) {
      if (CountOf(bucket[i]) <= CountOf(bucket[at])) at = i;
    }
  }
  std::move_backward(bucket.begin(), bucket.begin() + static_cast<int64_t>(at),
                     bucket.begin() + static_cast<int64_t>(at) + 1);
  bucket[0] = mark | count;
  // An admitted id has a row and is no candidate any more.
  if (count >= after_ && probability_ >= 1) bucket[0] = 0;
  return count;
}

}  // namespace paracord
