// Shows how a job goes, from the coordinator's status: a progress bar on a terminal, one line an
// epoch elsewhere, one JSON object a line with --json. Used in one thread.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

class Progress {
 public:
  enum class Style { kBar, kLines, kJson };
  Progress(Style style, std::ostream& out) : style_(style), out_(out) {}

  // `age_ms`: since the coordinator gave this status; `problem`: why there is no newer one.
  void Show(const nlohmann::json& status, int64_t age_ms = 0, const std::string& problem = "");
  // What the job's summary has of it and no status had: it may end right after an evaluation.
  void ShowLast(const nlohmann::json& summary);
  // A line of its own, such as "worker:1 died (signal 9) and was restarted".
  void Event(const std::string& kind, const std::string& text);
  void End();  // leaves the bar's line

 private:
  void ShowEvaluations(const nlohmann::json& status, uint64_t epochs);
  void ShowEpoch(const nlohmann::json& status);
  void ShowCheckpoint(const nlohmann::json& status);
  void ShowWaiting(const nlohmann::json& status);
  void ShowSilence(int64_t age_ms, const std::string& problem);
  void ShowBar(const nlohmann::json& status, int64_t age_ms);

  static constexpr double kEpochSecondsLeast = 1;  // between lines of epochs
  static constexpr double kWaitingSecondsLeast = 1;
  static constexpr int64_t kSilentMs = 3000;

  const Style style_;
  std::ostream& out_;
  std::map<uint64_t, nlohmann::json> evaluations_shown_;  // their metrics, by epoch
  uint64_t epochs_ = 0;                                   // of the job, as the newest status says
  std::set<std::string> refused_shown_;                   // checkpoints
  std::string checkpoint_problem_;                        // that has been shown
  bool checkpoint_waits_ = false;                         // it was shown as what is left
  uint64_t epoch_shown_ = 0;                              // that is under way
  double epoch_shown_seconds_ = -kEpochSecondsLeast;      // when the job had run for so long
  std::string waiting_;                                   // of the newest status, without numbers
  double waiting_since_ = 0;                              // when the job had run for so long
  bool waiting_told_ = false;                             // this one
  bool waiting_shown_ = false;                            // some since it went on
  bool silence_shown_ = false;                            // of the coordinator
  bool first_ = true;
  bool bar_shown_ = false;
};

// "epoch 2/5: accuracy 0.9012, loss 0.2841" of an entry of status["evaluations"].
std::string EvaluationText(const nlohmann::json& evaluation, uint64_t epochs);

}  // namespace paracord
