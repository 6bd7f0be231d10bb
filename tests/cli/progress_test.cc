// Tests the progress that people see of a running job.
#include "cli/progress.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"

namespace paracord {
namespace {

using nlohmann::json;

json Status(const std::string& problem) {
  return {
      {"phase", "training"},
      {"epoch", 1},
      {"epochs", 2},
      {"batches", 10},
      {"batches_done", 3},
      {"samples_per_second", 5.0},
      {"loss", 0.5},
      {"wall_seconds", 1.0},
      {"up_seconds", 1.0},
      {"workers", json::array()},
      {"evaluations", json::array()},
      {"checkpoint",
       {{"last", nullptr}, {"running", false}, {"problem", problem}, {"refused", json::object()}}}};
}

TEST_CASE("a checkpoint round that fails is one line for each reason, and so is its end") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  for (const char* problem : {"", "disk full", "disk full", "", "", "read-only"}) {
    progress.Show(Status(problem));
  }
  CHECK(out.str() ==
        "the last checkpoint round failed, training goes on: disk full\n"
        "checkpoints are written again\n"
        "the last checkpoint round failed, training goes on: read-only\n");
}

TEST_CASE(
    "a reason that repeats in another round has no line, but the job's wait for its last "
    "checkpoint has") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  progress.Show(Status("round-g1-r2: full"));
  progress.Show(Status("round-g1-r3: full"));
  json status = Status("round-g1-r4: full");
  status["batches_done"] = 10;
  progress.Show(status);
  status["checkpoint"]["problem"] = "round-g1-r5: full";
  progress.Show(status);
  CHECK(out.str() ==
        "the last checkpoint round failed, training goes on: round-g1-r2: full\n"
        "all batches are applied, and the job ends when its last checkpoint can be written: "
        "round-g1-r4: full\n");
}

TEST_CASE("the bar is one line of a terminal of any width") {
  std::ostringstream out;
  Progress progress(Progress::Style::kBar, out);
  json status = Status("");
  status["waiting"] = "as long as a line can be: " + std::string(300, 'w');
  progress.Show(status);
  // The bar switches wrapping at the right margin off, and on again for the output behind it.
  CHECK(out.str().starts_with("\r\x1b[K\x1b[?7l[#######"));
  CHECK(out.str().ends_with("w\x1b[?7h"));
}

TEST_CASE("evaluations of an earlier run are not shown again") {
  for (const double up_seconds : {0.5, 60.0}) {
    std::ostringstream out;
    Progress progress(Progress::Style::kLines, out);
    json status = Status("");
    status["wall_seconds"] = 1000.0;
    status["up_seconds"] = up_seconds;
    status["evaluations"].push_back({{"epoch", 1}, {"metrics", {{"accuracy", 0.5}}}});
    progress.Show(status);
    CHECK(out.str().empty() == (up_seconds < 5));
  }
}

TEST_CASE("a checkpoint that is refused while the job is restored is said once, with why") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  status["checkpoint"]["refused"] = {{"step-7-g1-r2", "ps:0: x.safetensors: damaged"}};
  status["checkpoint"]["last"] = "step-5-g1-r1";
  progress.Show(status);
  progress.Show(status);
  status["checkpoint"]["last"] = nullptr;
  status["checkpoint"]["refused"]["step-5-g1-r1"] = "ps:1: gone";
  progress.Show(status);
  CHECK(out.str() ==
        "checkpoint step-7-g1-r2 is refused: ps:0: x.safetensors: damaged; the newest that can be "
        "used is step-5-g1-r1\n"
        "checkpoint step-5-g1-r1 is refused: ps:1: gone\n");
}

TEST_CASE("the evaluation at which a job ended is shown too, and none twice") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  progress.Show(status);
  status["evaluations"].push_back({{"epoch", 1}, {"metrics", {{"accuracy", 0.5}}}});
  progress.Show(status);
  status["evaluations"].push_back({{"epoch", 2}, {"metrics", {{"accuracy", 0.75}}}});
  progress.ShowLast({{"epochs", 2},
                     {"samples_per_second", 6.0},
                     {"wall_seconds", 2.0},
                     {"metrics", {{"train", {{"loss", 0.25}}}}},
                     {"evaluations", status["evaluations"]}});
  CHECK(out.str() ==
        "epoch 1/2: test accuracy 0.5000, training loss 0.5000  (5 samples/s, 1.0 s)\n"
        "epoch 2/2: test accuracy 0.7500, training loss 0.2500  (6 samples/s, 2.0 s)\n");
}

TEST_CASE("an epoch that is not scored is a line with its loss, one a second at most") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  status["epochs"] = 9;
  const auto show = [&](uint64_t epoch, double seconds) {
    status["epoch"] = epoch;
    status["wall_seconds"] = seconds;
    progress.Show(status);
  };
  show(3, 1);  // as it was found
  show(4, 2);
  show(4, 4);
  show(5, 2.5);
  show(6, 3);
  show(2, 8);  // a restore took back what has been shown
  show(6, 9);
  status["evaluations"].push_back({{"epoch", 6}, {"metrics", {{"accuracy", 0.5}}}});
  show(7, 10);
  status["loss"] = nullptr;
  show(8, 11);
  CHECK(out.str() ==
        "epoch 3/9: training loss 0.5000  (5 samples/s, 2.0 s)\n"
        "epoch 5/9: training loss 0.5000  (5 samples/s, 3.0 s)\n"
        "epoch 6/9: test accuracy 0.5000, training loss 0.5000  (5 samples/s, 10.0 s)\n"
        "epoch 7/9:   (5 samples/s, 11.0 s)\n");
}

TEST_CASE("an epoch that is scored again is shown again: the last line is what is recorded") {
  json status = Status("");
  const auto scored = [&](double accuracy) {
    status["evaluations"] = json::array({{{"epoch", 1}, {"metrics", {{"accuracy", accuracy}}}}});
    return status;
  };
  std::ostringstream lines, objects;
  Progress people(Progress::Style::kLines, lines), programs(Progress::Style::kJson, objects);
  for (Progress* progress : {&people, &programs}) {
    progress->Show(Status(""));
    progress->Show(scored(0.5));
    progress->Show(Status(""));  // a ps was restored: the epoch is not complete any more
    progress->Show(scored(0.625));
    progress->Show(scored(0.625));
  }
  CHECK(lines.str() ==
        "epoch 1/2: test accuracy 0.5000, training loss 0.5000  (5 samples/s, 1.0 s)\n"
        "epoch 1/2: test accuracy 0.6250, scored again after a restore, training loss 0.5000  "
        "(5 samples/s, 1.0 s)\n");
  CHECK(objects.str().find("\"again\":true") > objects.str().find("0.5"));
}

TEST_CASE("with --json a failed round is an object of its own") {
  std::ostringstream out;
  Progress progress(Progress::Style::kJson, out);
  progress.Show(Status("disk full"));
  const json line = JsonOf(out.str());
  CHECK(line.at("event") == "checkpoint");
  CHECK(line.at("text").get<std::string>().find("disk full") != std::string::npos);
}

TEST_CASE("why a batch failed or a program was lost is a warning, once for each time") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  progress.Show(status);
  status["last_failure"] = "batch 3 of epoch 1 on worker:0: ValueError: no";
  progress.Show(status);
  progress.Show(status);
  status["last_failure"] = "worker:0: the program was lost: it ended with exit code 7";
  for (const int losses : {1, 1, 2}) {
    status["program_losses"] = losses;
    progress.Show(status);
  }
  CHECK(out.str() ==
        "warning: batch 3 of epoch 1 on worker:0: ValueError: no\n"
        "warning: worker:0: the program was lost: it ended with exit code 7\n"
        "warning: worker:0: the program was lost: it ended with exit code 7\n");
}

TEST_CASE(
    "a wait that lasts a moment is a line that says who waits for whom, and its end is another") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  progress.Show(status);
  status["waiting"] = "ps:1 has not answered for 2.1 s";
  progress.Show(status);
  CHECK(out.str().empty());
  for (const double seconds : {2.5, 3.5}) {
    status["wall_seconds"] = seconds;
    status["waiting"] = absl::StrCat("ps:1 has not answered for ", seconds, " s");
    progress.Show(status);
  }
  status["waiting"] = "training is parked: missing ps:1";
  status["checkpoint"]["problem"] = "ps:1 is away";
  for (const double seconds : {4.0, 5.5, 6.5}) {
    status["wall_seconds"] = seconds;
    progress.Show(status);
  }
  status.erase("waiting");
  progress.Show(status);
  CHECK(out.str() ==
        "waiting: ps:1 has not answered for 2.5 s\n"
        "the last checkpoint round failed: ps:1 is away\n"
        "waiting: training is parked: missing ps:1\n"
        "it goes on\n");
}

TEST_CASE("numbers of a coordinator that does not answer are shown with their age") {
  std::ostringstream lines, bar;
  Progress of_lines(Progress::Style::kLines, lines), of_bar(Progress::Style::kBar, bar);
  for (const int64_t age_ms : {100, 3100, 4200, 0}) {
    of_lines.Show(Status(""), age_ms, "no answer within 2000 ms");
    of_bar.Show(Status(""), age_ms, "no answer within 2000 ms");
  }
  CHECK(lines.str() ==
        "the coordinator has not answered for 3 s: no answer within 2000 ms\n"
        "the coordinator answers again\n");
  CHECK(bar.str().find("(4 s old: the coordinator does not answer)") != std::string::npos);
}

TEST_CASE("the bar says how much time is left, if that is known") {
  std::ostringstream out;
  Progress progress(Progress::Style::kBar, out);
  json status = Status("");
  progress.Show(status);
  CHECK(out.str().find(" left") == std::string::npos);
  status["seconds_left"] = 750.0;
  progress.Show(status);
  CHECK(out.str().find("  13 min left  ") != std::string::npos);
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
