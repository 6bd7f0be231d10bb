// The ids that pushes of a table name most often. A count sketch (Charikar, Chen and Farach-Colton,
// "Finding frequent items in data streams", 2002) finds candidates among any number of ids; each
// candidate then gets a counter of its own, which gives its share. Memory is bounded. Only one row
// in kSampled is looked at on average, which costs next to nothing. The more rows a push has, the
// more pushes it takes until a hot id stands out. Used under the table's lock.
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
  static constexpr size_t kDepth = 3;     // estimates of an id; the median counts
  static constexpr size_t kWidth = 4096;  // counters for each
  static constexpr size_t kKept = 64;     // ids that are counted; at most twice as many

  // Counts the ids of a push, each once.
  void Push(std::span<const uint64_t> ids);

  struct Hot {
    uint64_t id = 0;
    double share = 0;  // estimated share of pushes that name the id
  };
  // Returns the ids that are surely the hottest, as far as samples tell. Leaves out ids sampled
  // fewer than fifty times: among many ids, a few samples make some look too hot.
  std::vector<Hot> Top(size_t count) const;

 private:
  struct Kept {
    uint64_t seen = 0;   // samples
    uint64_t since = 0;  // the push after which `seen` counts
  };
  void Count(uint64_t id);
  // Adds to an id's counters in the sketch, and returns how often it was sampled, estimated.
  int64_t Sketch(uint64_t id, int32_t add);
  void KeepHottest();

  std::vector<int32_t> counters_;  // kDepth rows of kWidth; none before the first sample
  absl::flat_hash_map<uint64_t, Kept> kept_;
  int64_t least_ = 0;  // an id needs a higher estimate to be counted
  uint64_t pushes_ = 0;
  uint64_t next_ = 0;  // rows until the next that is looked at
};

}  // namespace paracord
