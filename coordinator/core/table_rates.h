// Measures how many rows of growing tables are pulled from and pushed to a ps in a second, from the
// counts that the ps reports. Each ps has a TableRates of its own (ps_tracker.h). Does no I/O.
#pragma once

#include <cstdint>
#include <map>

#include "proto/paracord.pb.h"

namespace paracord {

class TableRates {
 public:
  struct Rate {
    double pulled = 0, pushed = 0;  // rows a second
  };

  // Takes a new description of the ps. Rates are measured over windows of a few seconds. If a count
  // is lower than before, the ps has restarted or loaded the partition anew, and measuring begins
  // again.
  void Take(const PsDescription& description, int64_t now_ms);
  Rate Of(uint32_t partition) const;

 private:
  struct Window {
    int64_t since_ms = 0;
    uint64_t pulled = 0, pushed = 0;  // counts at since_ms
    Rate rate{};                      // rate in the previous window
  };
  std::map<uint32_t, Window> windows_;  // key: partition
};

}  // namespace paracord
