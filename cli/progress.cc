#include "cli/progress.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/cost_lines.h"
#include "cli/progress_line.h"
#include "common/json_text.h"
#include "common/one_line.h"

namespace paracord {
namespace {

// JSON has no NaN: it stands as null.
double Number(const nlohmann::json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string WithoutNumbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return text;
}

// A part of an epoch's line. If the terminal is too narrow for all parts, the part with the highest
// number is dropped first.
struct EpochPiece {
  std::string text;
  size_t goes;
};

constexpr size_t kTrainLossGoes = 1, kTestLossGoes = 2, kTestMetricsGo = 10'000,
                 kTrainMetricsGo = 20'000, kSecondsGo = 30'000, kRateGoes = 30'001;

// Adds "loss 0.3512" and " accuracy 0.9012", the loss first, after a title. The first part, which
// has the title, is dropped last.
void AddMetrics(const nlohmann::json& metrics, std::string title, size_t loss_goes,
                size_t others_go, std::vector<EpochPiece>& pieces) {
  const auto add = [&](const std::string& name, double value, size_t goes) {
    pieces.push_back({absl::StrFormat("%s%s %.4f", title, name, value), goes});
    title = " ";
  };
  if (metrics.contains("loss")) add("loss", Number(metrics.at("loss")), loss_goes);
  for (const auto& [name, value] : metrics.items()) {
    if (name != "loss") add(name, Number(value), others_go++);
  }
}

}  // namespace

std::string EpochText(const nlohmann::json& entry, uint64_t epochs, size_t columns) {
  const std::string epoch = absl::StrCat("epoch ", entry.at("epoch").get<uint64_t>(), "/", epochs);
  std::vector<EpochPiece> pieces;
  const nlohmann::json none = nlohmann::json::object();
  AddMetrics(entry.value("train", none), "  ", kTrainLossGoes, kTrainMetricsGo, pieces);
  AddMetrics(entry.value("test", none), "  test ", kTestLossGoes, kTestMetricsGo, pieces);
  if (entry.contains("samples_per_second")) {
    pieces.push_back(
        {"  " + Grouped(Number(entry.at("samples_per_second"))) + " samples/s", kRateGoes});
  }
  if (entry.contains("seconds")) {
    pieces.push_back({absl::StrFormat("  %.1f s", Number(entry.at("seconds"))), kSecondsGo});
  }
  const auto text = [&] {
    std::string all = epoch;
    for (const EpochPiece& piece : pieces) all += piece.text;
    return all;
  };
  while (columns > 0 && !pieces.empty() && ColumnsOf(text()) >= columns) {
    pieces.erase(std::ranges::max_element(pieces, {}, &EpochPiece::goes));
  }
  return text();
}

void Progress::Event(const std::string& kind, const std::string& text) {
  End();
  if (style_ != Style::kJson) said_ = true;
  if (style_ == Style::kJson) {
    out_ << TextOf(nlohmann::json({{"event", kind}, {"text", text}})) << "\n" << std::flush;
  } else {
    out_ << Laid(text) << "\n" << std::flush;
  }
}

std::string Progress::Laid(const std::string& text) const {
  const std::string shown = TerminalText(text);
  return style_ == Style::kBar ? WrapWords(shown, columns_()) : shown;
}

void Progress::End() {
  if (bar_shown_) out_ << "\r\x1b[K" << std::flush;
  bar_shown_ = false;
}

// Shows each epoch that is closed, once. The newest one waits for its evaluation.
void Progress::ShowEpochs(const nlohmann::json& history, bool evaluating) {
  for (const nlohmann::json& entry : history) {
    const auto epoch = entry.at("epoch").get<uint64_t>();
    if (epoch <= epochs_shown_) continue;
    const bool scored = entry.contains("test");
    if (!scored && evaluating && &entry == &history.back()) break;
    epochs_shown_ = epoch;
    if (style_ == Style::kJson) {
      nlohmann::json line = entry;
      line["event"] = "epoch";
      line["epochs"] = epochs_;
      out_ << TextOf(line) << "\n" << std::flush;
      continue;
    }
    if (scored) evaluations_shown_[epoch] = entry.at("test");
    Event("epoch", EpochText(entry, epochs_, style_ == Style::kBar ? columns_() : 0));
  }
}

// Shows evaluations that are new, or that a restore has changed. An evaluation that ShowEpochs
// showed in the line of its epoch gets no other line.
void Progress::ShowEvaluations(const nlohmann::json& status) {
  for (const nlohmann::json& evaluation : status.at("evaluations")) {
    const auto epoch = evaluation.at("epoch").get<uint64_t>();
    const auto [shown, is_new] = evaluations_shown_.emplace(epoch, nlohmann::json());
    if (shown->second == evaluation.at("metrics")) continue;
    shown->second = evaluation.at("metrics");
    if (style_ == Style::kJson) {
      nlohmann::json line = evaluation;
      line["event"] = "evaluation";
      if (!is_new) line["again"] = true;
      out_ << TextOf(line) << "\n" << std::flush;
      continue;
    }
    const std::string text = EpochText({{"epoch", epoch}, {"test", evaluation.at("metrics")}},
                                       epochs_, style_ == Style::kBar ? columns_() : 0);
    Event("evaluation", is_new ? text : text + ", scored again after a restore");
  }
}

// Shows each problem once, even if its numbers change: a full disk fails round after round.
void Progress::ShowCheckpoint(const nlohmann::json& status) {
  const nlohmann::json refused = status.at("checkpoint").value("refused", nlohmann::json::object());
  for (const auto& [name, why] : refused.items()) {
    if (!refused_shown_.insert(name).second) continue;
    const nlohmann::json& last = status.at("checkpoint").at("last");
    Event("resume", absl::StrCat("checkpoint ", name, " is refused: ", why.get<std::string>(),
                                 last.is_string() ? "; the newest that can be used is " : "",
                                 last.is_string() ? last.get<std::string>() : ""));
  }
  std::string problem = status.at("checkpoint").value("problem", "");
  const bool trained = Number(status.at("batches")) > 0 &&
                       Number(status.at("batches_done")) >= Number(status.at("batches"));
  const bool same = WithoutNumbers(problem) == WithoutNumbers(checkpoint_problem_);
  if (same && (problem.empty() || trained == checkpoint_waits_)) return;
  checkpoint_waits_ = trained;
  checkpoint_problem_ = std::move(problem);
  if (checkpoint_problem_.empty()) {
    Event("checkpoint", "checkpoints are written again");
  } else {
    Event("checkpoint",
          (trained                      ? "all batches are applied, and the job ends when its last "
                                          "checkpoint can be written: "
           : status.contains("waiting") ? "the last checkpoint round failed: "
                                        : "the last checkpoint round failed, training goes on: ") +
              checkpoint_problem_);
  }
}

// Shows who waits for whom once the wait has lasted a moment. The bar shows it in its own line.
void Progress::ShowWaiting(const nlohmann::json& status) {
  const std::string phase = status.at("phase").get<std::string>();
  const bool told = phase == "forming" || phase == "loading" || phase == "training";
  const std::string waiting = told ? status.value("waiting", "") : "";
  const double seconds = Number(status.at("wall_seconds"));
  if (waiting.empty()) {
    if (std::exchange(waiting_shown_, false)) Event("waiting", "it goes on");
    waiting_.clear();
    return;
  }
  if (std::exchange(waiting_, WithoutNumbers(waiting)) != WithoutNumbers(waiting)) {
    waiting_since_ = seconds;
    waiting_told_ = false;
  }
  if (waiting_told_ || style_ == Style::kBar || seconds - waiting_since_ < kWaitingSecondsLeast) {
    return;
  }
  waiting_told_ = waiting_shown_ = true;
  Event("waiting", "waiting: " + waiting);
}

// Shows why a batch failed, or why a worker's program was lost, whenever the status has a new one.
void Progress::ShowFailure(const nlohmann::json& status) {
  const std::string failure = status.value("last_failure", "");
  const uint64_t losses = status.value("program_losses", uint64_t{0});
  const bool again = losses > std::exchange(program_losses_, losses);
  if (failure.empty() || (std::exchange(failure_, failure) == failure && !again)) return;
  Event("failure", "warning: " + failure);
}

// Shows once what batches cost, when enough of them were measured.
void Progress::ShowCost(const nlohmann::json& status) {
  if (cost_shown_) return;
  for (const std::string& line : CostLines(status)) {
    cost_shown_ = true;
    Event("cost", line);
  }
}

// Says that all shown numbers are old while the coordinator does not answer.
void Progress::ShowSilence(int64_t age_ms, const std::string& problem) {
  const bool silent = age_ms >= kSilentMs;
  if (silent == silence_shown_) return;
  silence_shown_ = silent;
  if (silent) {
    Event("silence", absl::StrFormat("the coordinator has not answered for %d s: %s", age_ms / 1000,
                                     problem.empty() ? "no answer yet" : problem));
  } else {
    Event("silence", "the coordinator answers again");
  }
}

void Progress::Show(const nlohmann::json& status, int64_t age_ms, const std::string& problem) {
  epochs_ = status.at("epochs").get<uint64_t>();
  if (std::exchange(first_, false)) {
    epochs_shown_ = status.value("epochs_found", uint64_t{0});
    for (const nlohmann::json& old : status.at("evaluations")) {
      const auto epoch = old.at("epoch").get<uint64_t>();
      if (epoch <= epochs_shown_) evaluations_shown_[epoch] = old.at("metrics");
    }
  }
  ShowEpochs(status.value("history", nlohmann::json::array()), status.at("phase") == "evaluating");
  ShowEvaluations(status);
  ShowCheckpoint(status);
  ShowFailure(status);
  ShowCost(status);
  ShowWaiting(status);
  ShowSilence(age_ms, problem);
  ShowLine(status, age_ms);
}

std::string Progress::Note(const nlohmann::json& status, int64_t age_ms) const {
  std::string note;
  if (age_ms >= kSilentMs) {
    note = absl::StrCat("(", age_ms / 1000, " s old: the coordinator does not answer)");
  } else if (status.contains("waiting")) {
    note = "waiting: " + status.at("waiting").get<std::string>();
  } else if (status.contains("again_to")) {
    note = absl::StrFormat("again %.0f of %.0f batches", Number(status.at("batches_done")),
                           Number(status.at("again_to")));
  }
  return note;
}

void Progress::ShowLine(const nlohmann::json& status, int64_t age_ms) {
  const bool rate = age_ms < kSilentMs && !status.contains("waiting");
  const std::string note = Note(status, age_ms);
  if (style_ == Style::kBar) {
    // The text must not wrap, even if the terminal has become narrower: a longer line would stay,
    // and be repeated at every redraw.
    out_ << "\r\x1b[K\x1b[?7l" << TerminalText(ProgressLine(status, note, rate, columns_()))
         << "\x1b[?7h" << std::flush;
    bar_shown_ = true;
    return;
  }
  const double seconds = Number(status.at("wall_seconds"));
  if (std::exchange(said_, false)) said_seconds_ = seconds;
  const double least = style_ == Style::kJson ? kProgressSecondsLeast : kQuietSecondsMost;
  if (!(seconds >= said_seconds_ + least)) return;
  said_seconds_ = seconds;
  if (style_ == Style::kLines) {
    Event("progress", ProgressLine(status, note, rate, 0));
    said_ = false;
    return;
  }
  nlohmann::json line = {{"event", "progress"}};
  for (const char* key : {"phase", "epoch", "epochs", "batches", "batches_done", "loss", "train",
                          "samples_per_second", "seconds_left", "waiting", "wall_seconds"}) {
    if (status.contains(key)) line[key] = status[key];
  }
  out_ << TextOf(line) << "\n" << std::flush;
}

void Progress::Verdict(const std::string& status, const std::string& reason) {
  const char* const colour = status == "done" ? "32" : status == "failed" ? "31" : "33";
  std::string text = Laid(absl::StrCat(status, ": ", reason));
  if (style_ == Style::kBar && coloured_) {
    const size_t end = text.find(':') + 1;
    text = absl::StrCat("\x1b[", colour, "m", text.substr(0, end), "\x1b[0m", text.substr(end));
  }
  out_ << text << "\n" << std::flush;
}

void Progress::ShowLast(const nlohmann::json& summary) {
  if (!summary.contains("evaluations")) return;
  try {
    if (epochs_ == 0) epochs_ = summary.at("epochs").get<uint64_t>();
    if (std::exchange(first_, false)) epochs_shown_ = summary.value("epochs_found", uint64_t{0});
    ShowEpochs(summary.value("history", nlohmann::json::array()), /*evaluating=*/false);
    ShowEvaluations(summary);
  } catch (const nlohmann::json::exception&) {  // it is another version's, or a person's
  }
}

}  // namespace paracord
