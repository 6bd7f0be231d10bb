// The ids that the pushes of a table name most often, by the frequent-items algorithm of Misra and
// Gries with purges by the median (Anderson et al., "A high-performance algorithm for identifying
// frequent items in data streams", 2017): a bounded number of counters, from all of which the
// median is subtracted when there is no other left. It looks at one row in kSampled on average, so
// it costs next to nothing. An id is found if more than about one row in kCounters is its. Used
// under the table's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace paracord {

class HotIds {
 public:
  static constexpr size_t kCounters = 2048;
  static constexpr uint64_t kSampled = 32;

  // A push names these ids, each once.
  void Push(std::span<const uint64_t> ids);

  struct Hot {
    uint64_t id = 0;
    double share = 0;  // of the pushes, that name it, estimated
  };
  // The hottest ones, those first. An id that was seen a few times only is none.
  std::vector<Hot> Top(size_t count) const;

 private:
  void Count(uint64_t id);

  absl::flat_hash_map<uint64_t, uint64_t> counts_;
  uint64_t pushes_ = 0;
  uint64_t next_ = 0;  // rows until the next that is looked at
};

}  // namespace paracord
