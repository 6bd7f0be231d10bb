// What the status page shows of a job's past: the curves of its training and the newest log lines
// about the job. Their sizes are bounded: when the curves are full, every second point is dropped
// and the sampling interval doubles, so the curves reach back to the start of this coordinator's
// training. Owned by the coordinator, used on its loop.
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

  // Whether a point may be added: there is none, or the newest is old enough, or is later than
  // `unix_ms` because a clock was set back.
  bool Takes(int64_t unix_ms) const;
  // If Takes(unix_ms), adds a point and removes older points at or after the step of `chart`, which
  // a restore has taken back.
  void Add(int64_t unix_ms, const Chart& chart);
  // Adds a line of the log; `level` is "info", "warn" or "error".
  void AddEvent(int64_t unix_ms, const std::string& level, const std::string& text);

  // Adds the key "curves" ({"step": [...], "unix_ms": [...], NAME: [...]}, with a number or null
  // for each point) and the key "events", the lines with the newest last.
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
