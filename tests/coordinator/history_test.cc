// The curves and events of the status page go back to the start and stay small.
#include "coordinator/history.h"

#include <catch2/catch.hpp>
#include <string>

namespace paracord {
namespace {

nlohmann::json Shown(const History& history) {
  nlohmann::json status;
  history.AddTo(status);
  return status;
}

TEST_CASE("curves of any length are bounded, and reach from the first point to the newest") {
  History history;
  const int64_t seconds = GENERATE(10, 401, 100000);
  for (int64_t s = 0; s < seconds; ++s) {
    history.Add(s * 1000, {s, {{"train/loss", static_cast<double>(s)}}});
  }
  const nlohmann::json curves = Shown(history).at("curves");
  const auto& steps = curves.at("step");
  REQUIRE_FALSE(steps.empty());
  CHECK(steps.size() <= History::kPointsMax);
  CHECK(steps.size() >= std::min<size_t>(static_cast<size_t>(seconds), History::kPointsMax / 2));
  CHECK(steps.front() == 0);
  CHECK(steps.back().get<int64_t>() >= seconds - 1 - seconds / 100);
  CHECK(curves.at("train/loss") == steps);
  CHECK(curves.at("unix_ms").size() == steps.size());
}

TEST_CASE("points are a second apart, and a clock that goes back stops nothing") {
  History history;
  for (const int64_t ms : {5000, 5100, 5999, 6000, 1000, 2000}) history.Add(ms, {ms, {}});
  CHECK(Shown(history).at("curves").at("unix_ms").size() == 2);  // earlier entries are void
  history.Add(9000, {9000, {}});
  CHECK(Shown(history).at("curves").at("step").back() == 9000);
}

TEST_CASE("a batch has one point, the newest, while a job stands still") {
  History history;
  history.Add(1000, {5, {{"train/loss", 2}}});
  history.Add(2000, {6, {{"train/loss", 1.5}}});
  for (int64_t s = 3; s < 9; ++s) history.Add(s * 1000, {6, {{"train/loss", 1.25}}});
  const nlohmann::json curves = Shown(history).at("curves");
  CHECK(curves.at("step") == nlohmann::json({5, 6}));
  CHECK(curves.at("train/loss") == nlohmann::json({2, 1.25}));
}

TEST_CASE("a restore takes the curves back with the job") {
  History history;
  for (int64_t s = 0; s < 10; ++s) history.Add(s * 1000, {s * 10, {}});
  history.Add(20000, {45, {}});
  CHECK(Shown(history).at("curves").at("step") == nlohmann::json({0, 10, 20, 30, 40, 45}));
}

TEST_CASE("a value that a point lacks is null") {
  History history;
  history.Add(0, {0, {{"cluster/workers", 1}}});
  history.Add(1000, {1, {{"cluster/workers", 2}, {"train/loss", 0.5}}});
  CHECK(Shown(history).at("curves").at("train/loss") == nlohmann::json({nullptr, 0.5}));
}

TEST_CASE("the newest events are kept, short and on one line") {
  History history;
  for (size_t i = 0; i < History::kEventsMax + 5; ++i) {
    history.AddEvent(static_cast<int64_t>(i), "info", "event " + std::to_string(i));
  }
  history.AddEvent(7, "error", "two\nlines" + std::string(5000, 'x'));
  const nlohmann::json events = Shown(history).at("events");
  REQUIRE(events.size() == History::kEventsMax);
  CHECK(events.front().at("text") == "event 6");
  CHECK(events.back().at("level") == "error");
  const std::string text = events.back().at("text");
  CHECK(text.starts_with("two; lines"));
  CHECK(text.size() < History::kEventBytesMax + 100);
}

}  // namespace
}  // namespace paracord
