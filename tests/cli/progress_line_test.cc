// Tests the layout of the progress line on terminals of every width.
#include "cli/progress_line.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace paracord {
namespace {

using nlohmann::json;

json Status() {
  return {{"phase", "training"},
          {"epoch", 3},
          {"epochs", 60},
          {"batches", 1000},
          {"batches_done", 312},
          {"samples_per_second", 142804.0},
          {"seconds_left", 240.0},
          {"loss", 0.3512},
          {"workers", json::array({json::object(), json::object()})}};
}

TEST_CASE("a line of progress says what matters most at each width") {
  const auto line = [](size_t columns) { return ProgressLine(Status(), "", true, columns); };
  CHECK(line(20) == "epoch 3/60");
  CHECK(line(23) == "[##......]  epoch 3/60");
  CHECK(line(28) == "epoch 3/60  loss now 0.3512");
  CHECK(line(50) == "epoch 3/60  loss now 0.3512  4 min left");
  CHECK(line(60) == "epoch 3/60  loss now 0.3512  142,804 samples/s  4 min left");
  CHECK(line(80) ==
        "[###.......]  epoch 3/60   31 %  loss now 0.3512  142,804 samples/s  4 min left");
  CHECK(line(124) ==
        "[############............................]  epoch 3/60   31 %  loss now 0.3512  "
        "142,804 samples/s  4 min left  2 workers");
  CHECK(line(250) == line(124));
  CHECK(line(0) == "epoch 3/60   31 %  loss now 0.3512  142,804 samples/s  4 min left  2 workers");
}

TEST_CASE("metrics of training stand behind the loss, and go before it where not all fit") {
  json status = Status();
  status["train"] = {{"accuracy", 0.90123}, {"auc", nullptr}, {"loss", 0.4}};
  CHECK(ProgressLine(status, "", true, 0) ==
        "epoch 3/60   31 %  loss now 0.3512  accuracy 0.9012  142,804 samples/s  4 min left  "
        "2 workers");
  CHECK(ProgressLine(status, "", true, 60) ==
        "epoch 3/60  loss now 0.3512  accuracy 0.9012  4 min left");
  CHECK(ProgressLine(status, "", true, 48) == "epoch 3/60  loss now 0.3512  accuracy 0.9012");
  CHECK(ProgressLine(status, "", true, 36) == "epoch 3/60  loss now 0.3512");
}

TEST_CASE("a line of progress fits its terminal, and a wider one shows no less") {
  const std::string notes[] = {"", "waiting: missing ps:1 (ended 4 s ago)", std::string(300, 'w')};
  for (const std::string& note : notes) {
    for (size_t columns = 16; columns <= 250; ++columns) {
      CAPTURE(columns, note);
      const std::string line = ProgressLine(Status(), note, note.empty(), columns);
      CHECK(line.size() < columns);
      CHECK(absl::StrContains(line, "epoch 3/60"));
      CHECK((columns < 28 || absl::StrContains(line, "loss now 0.3512")));
    }
  }
}

TEST_CASE("a note stands in place of a rate that is not true now, and is cut where it is long") {
  const std::string note = "waiting: missing ps:1 (ended 4 s ago)";
  CHECK(ProgressLine(Status(), note, false, 80) ==
        "epoch 3/60   31 %  loss now 0.3512  waiting: missing ps:1 (ended 4 s ago)");
  CHECK(ProgressLine(Status(), note, false, 54) ==
        "epoch 3/60  loss now 0.3512  waiting: missing ps:1...");
  CHECK(ProgressLine(Status(), "waiting: \u00fc\u00fc\u00fc\u00fc\u00fc", false, 44) ==
        "epoch 3/60  loss now 0.3512  waiting: \u00fc\u00fc\u00fc\u00fc\u00fc");
}

TEST_CASE("what nobody has computed yet is not shown") {
  json status = Status();
  status["loss"] = nullptr;
  status["samples_per_second"] = 0.0;
  status.erase("seconds_left");
  status["workers"] = json::array({json::object()});
  CHECK(ProgressLine(status, "", true, 0) == "epoch 3/60   31 %  1 worker");
  status["phase"] = "forming";
  status["batches"] = 0;
  status["workers"] = json::array();
  CHECK(ProgressLine(status, "waiting: missing a worker", false, 0) ==
        "forming    0 %  0 workers  waiting: missing a worker");
  status["phase"] = "evaluating";
  CHECK(ProgressLine(status, "", true, 0) == "evaluating epoch 3/60    0 %  0 workers");
}

TEST_CASE("a time is told in two units at most") {
  CHECK(TimeText(0) == "0 s");
  CHECK(TimeText(89.4) == "89 s");
  CHECK(TimeText(90) == "2 min");
  CHECK(TimeText(5400) == "1 h 30 min");
  CHECK(TimeText(200000) == "2 d 7 h");
  CHECK(TimeText(1.0 / 0.0) == "?");
}

}  // namespace
}  // namespace paracord
