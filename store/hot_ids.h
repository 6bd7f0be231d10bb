// The ids that the pushes of a table name most often. A count sketch (Charikar, Chen and
// Farach-Colton, "Finding frequent items in data streams", 2002) says which ids are among the
// hottest, however many others a push names; those few are then counted by themselves, and their
// shares told from that. Memory is bounded. It looks at one row in kSampled on average, so it costs
// next to nothing. The more rows pushes have, the more pushes it takes until a hot id stands out.
// Used under the table's lock.
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
  static constexpr size_t kDepth = 3;     // estimates of an id, of which the middle one counts
  static constexpr size_t kWidth = 4096;  // counters for each
  static constexpr size_t kKept = 64;     // ids that are counted; at most twice as many

  // A push names these ids, each once.
  void Push(std::span<const uint64_t> ids);

  struct Hot {
    uint64_t id = 0;
    double share = 0;  // of the pushes, that name it, estimated
  };
  // Returns the ids that are the hottest for sure, as far as samples tell. An id that was sampled
  // less than fifty times is none of them, since the hottest of many ids are those whose few
  // samples say too much.
  std::vector<Hot> Top(size_t count) const;

 private:
  struct Kept {
    uint64_t seen = 0;   // samples
    uint64_t since = 0;  // in the pushes after this one
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
