// Tests the progress display of a running job.
#include "cli/progress.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

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

json Epoch(uint64_t number, double loss) {
  return {{"epoch", number},
          {"batches", 5},
          {"examples", 50000},
          {"rejected", 0},
          {"seconds", 2.5},
          {"samples_per_second", 20000},
          {"train", {{"accuracy", 0.9}, {"loss", loss}}}};
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

TEST_CASE("the bar is drawn again in the line where it stands, without wrapping") {
  std::ostringstream out;
  size_t columns = 80;
  Progress progress(Progress::Style::kBar, out, [&] { return columns; });
  progress.Show(Status(""));
  // Line wrapping is switched off for the progress line, and on again after it.
  CHECK(out.str() ==
        "\r\x1b[K\x1b[?7l[#####.............]  epoch 1/2   30 %  loss now 0.5000  5 samples/s  "
        "0 workers\x1b[?7h");
  out.str("");
  progress.Event("note", "a line");  // takes the bar's place
  CHECK(out.str() == "\r\x1b[Ka line\n");
  out.str("");
  columns = 30;
  progress.Show(Status(""));
  CHECK(out.str() == "\r\x1b[K\x1b[?7lepoch 1/2  loss now 0.5000\x1b[?7h");
}

TEST_CASE("a line that a terminal is too narrow for is broken between words, and nowhere else") {
  const std::string text = "a batch takes 0.6 ms to compute, and a while to exchange: 86 batches/s";
  const auto said = [&](Progress::Style style, size_t columns) {
    std::ostringstream out;
    Progress progress(
        style, out, [=] { return columns; }, /*coloured=*/true);
    progress.Event("cost", text);
    progress.Verdict("failed", text);
    return out.str();
  };
  CHECK(said(Progress::Style::kBar, 40) ==
        "a batch takes 0.6 ms to compute, and a\n  while to exchange: 86 batches/s\n"
        "\x1b[31mfailed:\x1b[0m a batch takes 0.6 ms to\n  compute, and a while to exchange: 86\n"
        "  batches/s\n");
  for (const auto& [style, columns] : {std::pair(Progress::Style::kBar, text.size() + 9),
                                       std::pair(Progress::Style::kLines, size_t{20})}) {
    CHECK(said(style, columns).starts_with(text + "\n"));
    CHECK(said(style, columns).ends_with(" " + text + "\n"));
  }
}

TEST_CASE("after a restore the bar says how many batches are applied again") {
  std::ostringstream out;
  Progress progress(Progress::Style::kBar, out);
  for (const int done : {3, 7, 2, 7}) {
    json status = Status("");
    status["batches_done"] = done;
    if (done == 2) status["again_to"] = 7;
    out.str("");
    progress.Show(status);
    CHECK((out.str().find("  again 2 of 7 batches") != std::string::npos) == (done == 2));
  }
}

TEST_CASE("without a terminal a minute without a line ends with one that says how far it is") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  for (const double seconds : {1.0, 60.0, 61.0, 100.0, 122.0}) {
    status["wall_seconds"] = seconds;
    progress.Show(status);
  }
  const std::string line = "epoch 1/2   30 %  loss now 0.5000  5 samples/s  0 workers\n";
  CHECK(out.str() == line + line);
}

TEST_CASE("with --json there is an object of progress a second") {
  std::ostringstream out;
  Progress progress(Progress::Style::kJson, out);
  json status = Status("");
  for (const double seconds : {1.0, 1.5, 2.0, 2.5}) {
    status["wall_seconds"] = seconds;
    progress.Show(status);
  }
  std::istringstream lines(out.str());
  std::vector<double> at;
  for (std::string line; std::getline(lines, line);) {
    CHECK(JsonOf(line).at("event") == "progress");
    CHECK(JsonOf(line).at("batches_done") == 3);
    at.push_back(JsonOf(line).at("wall_seconds"));
  }
  CHECK(at == std::vector<double>{2.0});
}

TEST_CASE("how a job ended has a colour where colours are wanted, and never elsewhere") {
  const auto verdict = [](Progress::Style style, bool coloured, const char* status) {
    std::ostringstream out;
    Progress progress(
        style, out, [] { return 80; }, coloured);
    progress.Verdict(status, "why\x1b[2J");
    return out.str();
  };
  CHECK(verdict(Progress::Style::kBar, true, "failed") == "\x1b[31mfailed:\x1b[0m why\\x1b[2J\n");
  CHECK(verdict(Progress::Style::kBar, true, "stopped").starts_with("\x1b[33m"));
  CHECK(verdict(Progress::Style::kBar, true, "done").starts_with("\x1b[32m"));
  CHECK(verdict(Progress::Style::kBar, false, "failed") == "failed: why\\x1b[2J\n");
  CHECK(verdict(Progress::Style::kLines, true, "failed") == "failed: why\\x1b[2J\n");
}

TEST_CASE("epochs and evaluations of an earlier run are not shown again") {
  for (const uint64_t found : {0, 1}) {
    std::ostringstream out;
    Progress progress(Progress::Style::kLines, out);
    json status = Status("");
    status["wall_seconds"] = 1000.0;
    status["epochs_found"] = found;
    status["evaluations"].push_back({{"epoch", 1}, {"metrics", {{"accuracy", 0.5}}}});
    status["history"].push_back(Epoch(1, 2));
    progress.Show(status);
    CHECK(out.str().empty() == (found == 1));
    CHECK(progress.epochs_shown() == 1);
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

TEST_CASE("every epoch is a line, however many are done at once, and none twice") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  status["epochs"] = 9;
  status["history"] = json::array({Epoch(1, 4), Epoch(2, 3)});
  progress.Show(status);
  progress.Show(status);
  CHECK(progress.epochs_shown() == 2);
  status["history"] = json::array({Epoch(3, 2)});
  progress.Show(status);
  status["history"] = json::array({Epoch(2, 9), Epoch(3, 9)});  // after a restore
  progress.Show(status);
  CHECK(out.str() ==
        "epoch 1/9  loss 4.0000 accuracy 0.9000  20,000 samples/s  2.5 s\n"
        "epoch 2/9  loss 3.0000 accuracy 0.9000  20,000 samples/s  2.5 s\n"
        "epoch 3/9  loss 2.0000 accuracy 0.9000  20,000 samples/s  2.5 s\n");
}

TEST_CASE("the line of an epoch fits the terminal, and what matters less gives way first") {
  json status = Status("");
  json epoch = Epoch(1, 4);
  epoch["train"]["auc"] = 0.75;
  epoch["test"] = {{"accuracy", 0.875}, {"auc", 0.5}, {"loss", 3.5}};
  status["history"] = json::array({epoch});
  const auto line = [&](size_t columns) {
    std::ostringstream out;
    Progress progress(Progress::Style::kBar, out, [=] { return columns; });
    progress.Show(status);
    return out.str().substr(0, out.str().find('\n'));
  };
  CHECK(line(200) ==
        "epoch 1/2  loss 4.0000 accuracy 0.9000 auc 0.7500  test loss 3.5000 accuracy 0.8750 auc "
        "0.5000  20,000 samples/s  2.5 s");
  CHECK(line(80) == "epoch 1/2  loss 4.0000  test loss 3.5000 accuracy 0.8750 auc 0.5000");
  CHECK(line(60) == "epoch 1/2  loss 4.0000  test loss 3.5000 accuracy 0.8750");
  for (size_t columns = 10; columns < 200; ++columns) CHECK(line(columns).size() < columns);
}

TEST_CASE("an epoch waits for its evaluation, which stands in the same line") {
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  json status = Status("");
  status["phase"] = "evaluating";
  status["history"] = json::array({Epoch(1, 4), Epoch(2, 3)});
  progress.Show(status);
  CHECK(out.str() == "epoch 1/2  loss 4.0000 accuracy 0.9000  20,000 samples/s  2.5 s\n");
  out.str("");
  status["history"][1]["test"] = {{"auc", 0.75}, {"loss", 3.5}};
  status["evaluations"].push_back({{"epoch", 2}, {"metrics", status["history"][1]["test"]}});
  progress.Show(status);
  CHECK(out.str() ==
        "epoch 2/2  loss 3.0000 accuracy 0.9000  test loss 3.5000 auc 0.7500  20,000 samples/s  "
        "2.5 s\n");
}

TEST_CASE("the epochs that only the summary has are shown at the end, also if nothing was before") {
  const bool seen = GENERATE(true, false);
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  if (seen) progress.Show(Status(""));
  json last = Epoch(2, 3);
  last["train"] = json::object();  // no worker reported losses
  last.erase("samples_per_second");
  progress.ShowLast({{"epochs", 2},
                     {"epochs_found", seen ? 0 : 1},
                     {"history", json::array({Epoch(1, 4), last})},
                     {"evaluations", json::array()}});
  CHECK(
      out.str() ==
      std::string(seen ? "epoch 1/2  loss 4.0000 accuracy 0.9000  20,000 samples/s  2.5 s\n" : "") +
          "epoch 2/2  2.5 s\n");
}

TEST_CASE("with --json an epoch is an object of its own") {
  std::ostringstream out;
  Progress progress(Progress::Style::kJson, out);
  json status = Status("");
  status["history"] = json::array({Epoch(1, 4)});
  progress.Show(status);
  json expected = Epoch(1, 4);
  expected["event"] = "epoch";
  expected["epochs"] = 2;
  CHECK(JsonOf(out.str()) == expected);
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
    progress->Show(Status(""));  // a ps was restored, so the epoch is incomplete again
    progress->Show(scored(0.625));
    progress->Show(scored(0.625));
  }
  CHECK(lines.str() ==
        "epoch 1/2  test accuracy 0.5000\n"
        "epoch 1/2  test accuracy 0.6250, scored again after a restore\n");
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
  Progress progress(Progress::Style::kBar, out, [] { return 84; });
  json status = Status("");
  progress.Show(status);
  CHECK(out.str().find(" left") == std::string::npos);
  status["seconds_left"] = 750.0;
  progress.Show(status);
  CHECK(out.str().find("  13 min left  ") != std::string::npos);
}

}  // namespace
}  // namespace paracord
