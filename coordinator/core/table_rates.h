// How many rows of growing tables a ps is asked for and is sent a second, from the counts that it
// tells of. One for each ps, owned by its entry in the tracker. Pure.
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

  // The ps has described itself. A rate is that of the newest window of a few seconds; counts that
  // are lower than before are those of a new life.
  void Take(const PsDescription& description, int64_t now_ms);
  Rate Of(uint32_t partition) const;

 private:
  struct Window {
    int64_t since_ms = 0;
    uint64_t pulled = 0, pushed = 0;  // then
    Rate rate{};                      // rate of the previous window
  };
  std::map<uint32_t, Window> windows_;  // key: partition
};

}  // namespace paracord
