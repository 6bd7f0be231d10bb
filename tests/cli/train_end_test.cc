// Tests the last line of `paracord train`, which depends on the files in DIR.
#include "cli/train_end.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

struct EndedDirectory {
  std::string Log(const std::string& text) {
    std::string path = directory / "ps-0.log";
    REQUIRE(files.WriteAtomic(path, text).ok());
    return path;
  }
  TestDirectory directory;
  PosixFiles files;
};

TEST_CASE("the last words of a daemon are all lines of its last message") {
  const std::string dated = "2026-11-21T20:03:38.716 info ";
  const std::string complaint = "/usr/bin/paracord-ps: ";
  const std::string before = dated + "ps:0 listens\n";
  struct Case {
    std::string log, words;
  };
  for (const Case& c : {
           Case{"", ""},
           Case{before, dated + "ps:0 listens"},
           Case{before + dated + "daemon exit code 2: one\nand another\n\n", "one\nand another"},
           Case{before + complaint + "one\n  two: three\nfour",
                complaint + "one\n  two: three\nfour"},
           Case{"no\nmessage", "no\nmessage"},
       }) {
    CAPTURE(c.log);
    EndedDirectory d;
    CHECK(LastWords(d.files, d.Log(c.log)) == c.words);
  }
  EndedDirectory d;
  CHECK(LastWords(d.files, d.directory / "none") == "");
}

TEST_CASE("a daemon's last words are cut off after a number of lines") {
  EndedDirectory d;
  std::string log, words;
  for (size_t i = 0; i < 100; ++i) {
    absl::StrAppend(&log, "line ", i, "\n");
    if (i >= 100 - kLastLinesMax) absl::StrAppend(&words, words.empty() ? "" : "\n", "line ", i);
  }
  CHECK(LastWords(d.files, d.Log(log)) == words);
}

TEST_CASE("a daemon that is given up is named with its last words, or how often it died") {
  EndedDirectory d;
  const std::string log = d.Log("/bin/paracord-ps: x.npy is gone\nlook for it\n");
  CHECK(GivenUpText(d.files, {"worker:0", "exit code 2", 2, "", log}) ==
        absl::StrCat("worker:0 ended (exit code 2), and nobody is left in its place: "
                     "/bin/paracord-ps: x.npy is gone\nlook for it\n(",
                     log, ")"));
  CHECK(
      GivenUpText(d.files, {"ps:0", "exit code 202", 202, "", log})
          .starts_with("ps:0 died 6 times, and the job got no further (at last: exit code 202): "));
  CHECK(
      GivenUpText(d.files, {"coordinator:0", "signal 9", 137, "", log}) ==
      absl::StrCat("coordinator:0 died 6 times, and the job got no further (at last: signal 9)\n(",
                   log, ")"));
}

TEST_CASE("a stop without a summary says what is lost and where to look") {
  EndedDirectory d;
  const std::string before = R"({"status": "stopped", "reason": "earlier"})";
  const TrainEnd end{.dir = d.directory.path(),
                     .summary_before = before,
                     .to_go_on = "paracord train job.json",
                     .log = d.directory.path() + "/logs/coordinator.log"};
  for (const bool earlier : {false, true}) {
    CAPTURE(earlier);
    if (earlier) REQUIRE(d.files.WriteAtomic(d.directory / "summary.json", before).ok());
    CHECK(StoppedText(d.files, end) ==
          absl::StrCat(
              "stopped (the coordinator left no summary, see ", d.directory.path(),
              "/logs/coordinator.log); batches after the last checkpoint are lost; there is no "
              "checkpoint; to begin again: paracord train job.json"));
  }
  REQUIRE(d.files.WriteAtomic(d.directory / "summary.json", R"({"reason": "SIGTERM"})").ok());
  CHECK(StoppedText(d.files, end) ==
        "stopped (SIGTERM); there is no checkpoint; to begin again: paracord train job.json");
  CHECK(StoppedText(d.files, end, "first, ")
            .starts_with("stopped (SIGTERM); first, there is no checkpoint"));
}

TEST_CASE("the end of a job is shown even if its summary is no summary of ours") {
  const std::string text =
      GENERATE("", "[]", "7", R"({"metrics": 7})", R"({"metrics": {"test": 7}})",
               R"({"status": ["done"]})", R"({"reason": {}})", R"({"evaluations": 7})",
               R"({"evaluations": [{"epoch": "one", "metrics": {}}]})",
               R"({"evaluations": [{"epoch": 1, "metrics": {"a": "b"}}]})");
  CAPTURE(text);
  EndedDirectory d;
  REQUIRE(d.files.WriteAtomic(d.directory / "summary.json", text).ok());
  std::ostringstream out;
  Progress progress(Progress::Style::kLines, out);
  progress.Show({{"phase", "training"},
                 {"epoch", 1},
                 {"epochs", 2},
                 {"batches", 2},
                 {"batches_done", 1},
                 {"wall_seconds", 1.0},
                 {"up_seconds", 1.0},
                 {"evaluations", nlohmann::json::array()},
                 {"checkpoint", {{"problem", ""}}}});
  const TrainEnd end{d.directory.path(), "", "paracord train job.json", false};
  CHECK(ShowEnd(d.files, end, 1, progress) == 1);
}

TEST_CASE("epochs of an earlier run are not shown again by a run that finds the job done") {
  const std::string summary =
      R"({"status": "done", "reason": "all batches are applied", "epochs": 1, "evaluations": [],
          "history": [{"epoch": 1, "samples": 8, "wall_seconds": 2.0, "train": {"loss": 0.5}}]})";
  EndedDirectory d;
  REQUIRE(d.files.WriteAtomic(d.directory / "summary.json", summary).ok());
  for (const bool earlier : {false, true}) {
    CAPTURE(earlier);
    std::ostringstream out;
    Progress progress(Progress::Style::kLines, out);
    const TrainEnd end{d.directory.path(), earlier ? summary : "", "paracord train j.json", false};
    CHECK(ShowEnd(d.files, end, 0, progress) == 0);
    CHECK(absl::StrContains(out.str(), "epoch 1/1") == !earlier);
    CHECK(absl::StrContains(out.str(), "nothing to do") == earlier);
    CHECK(absl::StrContains(out.str(), "done: all batches are applied"));
  }
}

}  // namespace
}  // namespace paracord
