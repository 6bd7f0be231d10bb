// Finds the ids that pushes of a table name most often. A count sketch (Charikar, Chen and
// Farach-Colton, "Finding frequent items in data streams", 2002) finds candidates among any number
// of ids. Each candidate then gets a counter of its own, from which its share of the pushes is
// computed. Memory is bounded. On average one in kSampled rows of a push is a sample, which costs
// next to nothing. Guarded by the partition's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace paracord {

class HotIds {
 public:
  static constexpr uint64_t kSampled = 32;
  static constexpr size_t kDepth = 3;     // estimates for an id; their median is used
  static constexpr size_t kWidth = 4096;  // counters for each estimate
  static constexpr size_t kKept = 64;     // candidates left when there are twice as many

  // Takes samples of the ids of a push, which are distinct.
  void Push(std::span<const uint64_t> ids);

  struct Hot {
    uint64_t id = 0;
    double share = 0;  // estimated share of pushes that name the id
  };
  // Returns at most `count` ids, the hottest first. Ids are ordered by the share that they
  // probably have at least, judged by their samples. Ids with fewer than 50 samples are left out:
  // among many ids, a few samples make some ids look too hot.
  std::vector<Hot> Top(size_t count) const;

 private:
  struct Kept {
    uint64_t seen = 0;   // samples of the candidate
    uint64_t since = 0;  // number of the push after which `seen` counts
  };
  // Counts a sample.
  void Count(uint64_t id);
  // Adds `add` to an id's counters in the sketch, and returns an estimate of how many samples it
  // has.
  int64_t Sketch(uint64_t id, int32_t add);
  // Drops all candidates but the kKept hottest.
  void KeepHottest();

  std::vector<int32_t> counters_;  // kDepth times kWidth; empty before the first sample
  absl::flat_hash_map<uint64_t, Kept> kept_;
  int64_t least_ = 0;  // an id needs a higher estimate to become a candidate
  uint64_t pushes_ = 0;
  uint64_t next_ = 0;  // how many rows come before the next sample
};

}  // namespace paracord
