// Keeps for the status page what a job did until now: the curves of its training and the newest
// lines of the coordinator's log. Both are bounded: when the curves are full, every second point is
// dropped and the sampling rate halves, so the curves always reach back to the start of this
// coordinator. Owned by the coordinator, used on its loop.
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

  // Whether the newest point is old enough for another one.
  bool Takes(int64_t unix_ms) const;
  // Takes the newest figures of the training, if it takes any.
  void Add(int64_t unix_ms, const Chart& chart);
  // Takes a line of the log; `level` is "info", "warn" or "error".
  void AddEvent(int64_t unix_ms, const std::string& level, const std::string& text);

  // Keys "curves" ({"step": [...], NAME: [...]}, one number or null for each point) and "events",
  // the newest last.
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
  int64_t point_ms_ = kPointMs;  // between two points
  std::deque<Line> lines_;
};

}  // namespace paracord
