#include "cli/progress.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// Returns the loss of the newest batches, from a status or a summary; "" if there is none.
std::string LossText(const nlohmann::json& status) {
  static const nlohmann::json::json_pointer in_summary("/metrics/train/loss");
  const nlohmann::json summed_up = status.value(in_summary, nlohmann::json());
  const double loss = Number(status.value("loss", summed_up));
  return std::isnan(loss) ? "" : absl::StrFormat("training loss %.4f", loss);
}

std::string PaceText(const nlohmann::json& status) {
  return absl::StrFormat("  (%.0f samples/s, %.1f s)", Number(status.at("samples_per_second")),
                         Number(status.at("wall_seconds")));
}

}  // namespace

std::string EvaluationText(const nlohmann::json& evaluation, uint64_t epochs) {
  std::string text =
      absl::StrCat("epoch ", evaluation.at("epoch").get<uint64_t>(), "/", epochs, ":");
  for (const auto& [name, value] : evaluation.at("metrics").items()) {
    absl::StrAppendFormat(&text, " test %s %.4f", name, Number(value));
  }
  return text;
}

void Progress::Event(const std::string& kind, const std::string& text) {
  End();
  if (style_ != Style::kJson) said_ = true;
  if (style_ == Style::kJson) {
    out_ << TextOf(nlohmann::json({{"event", kind}, {"text", text}})) << "\n" << std::flush;
  } else {
    out_ << TerminalText(text) << "\n" << std::flush;
  }
}

void Progress::End() {
  if (bar_shown_) out_ << "\n";
  bar_shown_ = false;
}

// Shows evaluations that are new, or that a restore has changed.
void Progress::ShowEvaluations(const nlohmann::json& status, uint64_t epochs) {
  for (const nlohmann::json& evaluation : status.at("evaluations")) {
    const auto [shown, is_new] =
        evaluations_shown_.emplace(evaluation.at("epoch").get<uint64_t>(), nlohmann::json());
    if (shown->second == evaluation.at("metrics")) continue;
    shown->second = evaluation.at("metrics");
    if (style_ == Style::kJson) {
      nlohmann::json line = evaluation;
      line["event"] = "evaluation";
      if (!is_new) line["again"] = true;
      out_ << TextOf(line) << "\n" << std::flush;
      continue;
    }
    std::string text = EvaluationText(evaluation, epochs);
    if (!is_new) absl::StrAppend(&text, ", scored again after a restore");
    if (const std::string loss = LossText(status); !loss.empty()) text += ", " + loss;
    Event("evaluation", text + PaceText(status));
  }
}

// Shows the end of an epoch, unless it was evaluated, which has its own line. Of many short epochs
// only one a second gets a line.
void Progress::ShowEpoch(const nlohmann::json& status) {
  const auto epoch = status.at("epoch").get<uint64_t>();
  const double seconds = Number(status.at("wall_seconds"));
  const bool is_next = std::exchange(epoch_shown_, std::max(epoch, epoch_shown_)) < epoch;
  if (!is_next || epoch < 2 || evaluations_shown_.contains(epoch - 1)) return;
  if (seconds < epoch_shown_seconds_ + kEpochSecondsLeast) return;
  epoch_shown_seconds_ = seconds;
  if (style_ == Style::kJson) {
    out_ << TextOf(nlohmann::json({{"event", "epoch"},
                                   {"epoch", epoch - 1},
                                   {"loss", status.at("loss")},
                                   {"samples_per_second", status.at("samples_per_second")},
                                   {"wall_seconds", status.at("wall_seconds")}}))
         << "\n"
         << std::flush;
    return;
  }
  Event("epoch",
        absl::StrCat("epoch ", epoch - 1, "/", epochs_, ": ", LossText(status), PaceText(status)));
}

// Shows each problem once, whatever its numbers: a full disk fails one round after the other.
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

// Shows who waits for whom once that has lasted a moment. The bar shows it in its own line.
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
  if (first_) {
    first_ = false;
    epoch_shown_ = status.at("epoch").get<uint64_t>();
    if (status.at("up_seconds").get<double>() <= 5) {
      for (const nlohmann::json& old : status.at("evaluations")) {
        evaluations_shown_[old.at("epoch").get<uint64_t>()] = old.at("metrics");
      }
    }
  }
  epochs_ = status.at("epochs").get<uint64_t>();
  ShowEvaluations(status, epochs_);
  ShowEpoch(status);
  ShowCheckpoint(status);
  ShowFailure(status);
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
  } else if (Number(status.at("batches_done")) < batches_most_) {
    note = absl::StrFormat("again %.0f of %.0f batches", Number(status.at("batches_done")),
                           batches_most_);
  }
  return note;
}

void Progress::ShowLine(const nlohmann::json& status, int64_t age_ms) {
  batches_most_ = std::max(batches_most_, Number(status.at("batches_done")));
  const bool rate = age_ms < kSilentMs && !status.contains("waiting");
  const std::string note = Note(status, age_ms);
  if (style_ == Style::kBar) {
    // The text must not wrap, wherever the margin is by now: a line beyond it would stay, and a new
    // one appear each time.
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
  for (const char* key : {"phase", "epoch", "epochs", "batches", "batches_done", "loss",
                          "samples_per_second", "seconds_left", "waiting", "wall_seconds"}) {
    if (status.contains(key)) line[key] = status[key];
  }
  out_ << TextOf(line) << "\n" << std::flush;
}

void Progress::Verdict(const std::string& status, const std::string& reason) {
  const char* const colour = status == "done" ? "32" : status == "failed" ? "31" : "33";
  if (style_ == Style::kBar && coloured_) {
    out_ << "\x1b[" << colour << "m" << TerminalText(status) << ":\x1b[0m ";
  } else {
    out_ << TerminalText(status) << ": ";
  }
  out_ << TerminalText(reason) << "\n" << std::flush;
}

void Progress::ShowLast(const nlohmann::json& summary) {
  if (epochs_ == 0 || !summary.contains("evaluations")) return;
  try {
    ShowEvaluations(summary, epochs_);
  } catch (const nlohmann::json::exception&) {  // it is another version's, or a person's
  }
}

}  // namespace paracord
