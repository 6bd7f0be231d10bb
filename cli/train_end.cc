#include "cli/train_end.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/checkpoint_choice.h"
#include "cli/terminal.h"
#include "common/exit_code.h"
#include "common/json_text.h"
#include "coordinator/core/job_state.h"

namespace paracord {
namespace {

// Whether a line begins a message: of the log ("2026-01-31T..."), or of a program that has no log
// yet ("/bin/paracord-ps: "). All other lines continue the message before them.
bool BeginsMessage(const std::string& line) {
  const bool dated = line.size() > 10 && line[4] == '-' && line[7] == '-' && line[10] == 'T' &&
                     std::all_of(line.begin(), line.begin() + 4,
                                 [](unsigned char c) { return std::isdigit(c) != 0; });
  const std::string program = line.substr(0, line.find(": "));
  return dated || (program.find("/paracord-") != std::string::npos &&
                   program.find(' ') == std::string::npos);
}

// Removes everything before the reason from "2026-01-31T... info daemon exit code 2: reason".
std::string Reason(const std::string& words) {
  constexpr std::string_view kExit = " daemon exit code ";
  const size_t line = words.find('\n'), exit = words.find(kExit);
  if (exit >= line) return words;
  const size_t colon = words.find(": ", exit);
  return colon < line ? words.substr(colon + 2) : words;
}

// Parses the summary that a coordinator wrote at its end; null if it is none of ours.
nlohmann::json ParseSummary(const std::string& text) {
  nlohmann::json summary = JsonOf(text);
  const auto is = [&](const char* key, nlohmann::json::value_t type) {
    return !summary.contains(key) || summary[key].type() == type;
  };
  const bool ours = summary.is_object() && is("metrics", nlohmann::json::value_t::object) &&
                    is("status", nlohmann::json::value_t::string) &&
                    is("reason", nlohmann::json::value_t::string);
  return ours ? summary : nullptr;
}

// Returns this run's summary; null if there is none, or only that of an earlier run.
nlohmann::json SummaryOf(Files& files, const TrainEnd& end) {
  const absl::StatusOr<std::string> text = files.ReadWhole(end.dir + "/" + kSummaryName);
  return text.ok() && *text != end.summary_before ? ParseSummary(*text) : nullptr;
}

}  // namespace

std::string LastWords(Files& files, const std::string& log) {
  const absl::StatusOr<std::string> text = files.ReadWhole(log);
  if (!text.ok()) return "";
  std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  size_t first = lines.size();
  while (first > 0 && lines.size() - first < kLastLinesMax) {
    if (BeginsMessage(lines[--first])) break;
  }
  return Reason(
      absl::StrJoin(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), "\n"));
}

std::string GivenUpText(Files& files, const LocalCluster::Death& lost) {
  const bool own_words =
      lost.code < kRestartMayHelp || lost.code >= static_cast<int>(ExitCode::kListenerDeaf);
  std::string text =
      lost.code < kRestartMayHelp
          ? absl::StrCat(lost.task, " ended (", lost.how, "), and nobody is left in its place")
          : absl::StrCat(lost.task, " died ", LocalCluster::kRestartsMax + 1,
                         " times, and the job got no further (at last: ", lost.how, ")");
  if (const std::string words = own_words ? LastWords(files, lost.log) : ""; !words.empty()) {
    absl::StrAppend(&text, ": ", words);
  }
  return absl::StrCat(text, "\n(", lost.log, ")");
}

std::string StoppedText(Files& files, const TrainEnd& end, const std::string& first) {
  const nlohmann::json summary = SummaryOf(files, end);
  const std::string why =
      summary.is_object() ? absl::StrCat("stopped (", summary.value("reason", ""), ")")
                          : absl::StrCat("stopped (the coordinator left no summary, see ", end.log,
                                         "); batches after the last checkpoint are lost");
  const std::optional<Manifest> newest = NewestCheckpoint(files, end.dir);
  const std::string next = newest.has_value()
                               ? absl::StrCat("to go on from ", newest->name.ToString())
                               : std::string("there is no checkpoint; to begin again");
  return absl::StrCat(why, "; ", first, next, ": ", end.to_go_on);
}

int ShowEnd(Files& files, const TrainEnd& end, int coordinator_exit, Progress& progress) {
  const absl::StatusOr<std::string> text = files.ReadWhole(end.dir + "/" + kSummaryName);
  const nlohmann::json summary = text.ok() ? ParseSummary(*text) : nullptr;
  progress.End();
  // A coordinator that refuses the job, or finds it done, leaves an earlier run's summary
  // unchanged.
  const bool earlier = text.ok() && *text == end.summary_before;
  if (!summary.is_object() || (earlier && coordinator_exit != 0)) {
    TerminalErr() << "paracord " << end.command << ": the coordinator ended with code "
                  << coordinator_exit << ": " << LastWords(files, end.log) << "\n(" << end.log
                  << ")\n";
    return coordinator_exit;
  }
  if (earlier) {
    progress.Event("nothing",
                   "nothing to do: the job was done before, and asks neither for more batches "
                   "now nor for another stop_when (--fresh begins anew)");
  } else {
    progress.ShowLast(summary);
  }
  if (end.json) {
    TerminalOut() << TextOf(nlohmann::json({{"event", "end"}, {"summary", summary}})) << "\n";
    return coordinator_exit;
  }
  progress.Verdict(summary.value("status", ""), summary.value("reason", ""));
  const nlohmann::json sets = summary.value("metrics", nlohmann::json::object());
  for (const auto& [set, metrics] : sets.items()) {
    for (const auto& [name, value] : metrics.items()) {
      TerminalOut() << set << " " << name << ": " << value << "\n";
    }
  }
  const nlohmann::json best = summary.value("best", nlohmann::json::object());
  if (best.is_object() && best.contains("metric")) {
    TerminalOut() << "best " << best["metric"].get<std::string>() << ": " << best["value"]
                  << " after epoch " << best["epoch"];
    if (best.contains("checkpoint")) {
      TerminalOut() << ", in checkpoint " << best["checkpoint"].get<std::string>();
    }
    TerminalOut() << "\n";
  }
  TerminalOut() << "summary: " << end.dir << "/" << kSummaryName << "\n";
  if (summary.value("status", "") != "done" &&
      files.Open(absl::StrCat(end.dir, "/", kDoneSummaryName)).ok()) {
    TerminalOut() << "how the job ended before: " << end.dir << "/" << kDoneSummaryName << "\n";
  }
  return coordinator_exit;
}

}  // namespace paracord
