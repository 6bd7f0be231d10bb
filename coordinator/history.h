// The recent past of a job for the status page: the curves of its training and the newest lines of
// the coordinator's log. Their sizes are bounded: when the curves are full, every second point is
// dropped and the sampling interval doubles, so the curves reach back to the start of this
// coordinator's training. Owned by the coordinator, used on its loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace paracord {

class History {
 public:
  static constexpr size_t kPointsMax = 400;
  static constexpr size_t kEventsMax = 100;
  static constexpr size_t kEventBytesMax = 400;

  // Whether the newest point is old enough to add another one.
  bool Takes(int64_t unix_ms) const;
  // Adds a point, if Takes(unix_ms). Points at or after its step, void since a restore, go.
  void Add(int64_t unix_ms, const Chart& chart);
  // Adds a line of the log; `level` is "info", "warn" or "error".
  void AddEvent(int64_t unix_ms, const std::string& level, const std::string& text);

  // Adds the keys "curves" ({"step": [...], "unix_ms": [...], NAME: [...]}, a number or null for
  // each point) and "events", newest last.
  void AddTo(nlohmann::json& status) const;

 private:
  static constexpr int64_t kPointMs = 1000;

  struct Point {
    int64_t unix_ms = 0;
    Chart chart;
  };
  struct Line {
    int64_t unix_ms = 0;
    std::string level;
    std::string text;
  };
  std::vector<Point> points_;
  int64_t point_ms_ = kPointMs;  // the least time between two points
  std::deque<Line> lines_;
};

}  // namespace paracord
