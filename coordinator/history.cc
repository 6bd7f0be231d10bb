#include "coordinator/history.h"

#include <set>

#include "common/one_line.h"

namespace paracord {

// A clock that was set back must not stop the curves.
bool History::Takes(int64_t unix_ms) const {
  return points_.empty() || unix_ms < points_.back().unix_ms ||
         unix_ms - points_.back().unix_ms >= point_ms_;
}

void History::Add(int64_t unix_ms, const Chart& chart) {
  if (!Takes(unix_ms)) return;
  // After a restore, points behind the restored step are void. A step has one point, its newest.
  while (!points_.empty() && points_.back().chart.step >= chart.step) points_.pop_back();
  points_.push_back({unix_ms, chart});
  if (points_.size() <= kPointsMax) return;
  std::vector<Point> kept;
  for (size_t i = 0; i < points_.size(); i += 2) kept.push_back(std::move(points_[i]));
  points_ = std::move(kept);
  point_ms_ *= 2;
}

void History::AddEvent(int64_t unix_ms, const std::string& level, const std::string& text) {
  lines_.push_back({unix_ms, level, OneLine(text, kEventBytesMax)});
  if (lines_.size() > kEventsMax) lines_.pop_front();
}

void History::AddTo(nlohmann::json& status) const {
  std::set<std::string> names;
  for (const Point& point : points_) {
    for (const auto& [name, value] : point.chart.values) names.insert(name);
  }
  nlohmann::json curves = {{"step", nlohmann::json::array()}, {"unix_ms", nlohmann::json::array()}};
  for (const std::string& name : names) curves[name] = nlohmann::json::array();
  for (const Point& point : points_) {
    curves["step"].push_back(point.chart.step);
    curves["unix_ms"].push_back(point.unix_ms);
    for (const std::string& name : names) {
      nlohmann::json found;
      for (const auto& [of, value] : point.chart.values) {
        if (of == name) found = value;
      }
      curves[name].push_back(found);
    }
  }
  status["curves"] = std::move(curves);
  nlohmann::json events = nlohmann::json::array();
  for (const Line& line : lines_) {
    events.push_back({{"unix_ms", line.unix_ms}, {"level", line.level}, {"text", line.text}});
  }
  status["events"] = std::move(events);
}

}  // namespace paracord
