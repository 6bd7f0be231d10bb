// Shows a job's progress from the coordinator's status. Writes a line for every epoch. On a
// terminal a line with a bar is redrawn below these lines; elsewhere a line of progress is written
// after a minute without a line. With --json each line is a JSON object. Used in one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"

namespace paracord {

class Progress {
 public:
  enum class Style { kBar, kLines, kJson };
  // `columns` returns the present width of the terminal. `coloured` allows colours on a terminal.
  Progress(
      Style style, std::ostream& out, std::function<size_t()> columns = [] { return 80; },
      bool coloured = false)
      : style_(style), out_(out), columns_(std::move(columns)), coloured_(coloured) {}

  // Shows a status that came `age_ms` ago; `problem` says why no newer one has come.
  void Show(const nlohmann::json& status, int64_t age_ms = 0, const std::string& problem = "");
  // Shows the epochs and evaluations that only the job's summary has: a job may end right after an
  // epoch, before a status shows the epoch.
  void ShowLast(const nlohmann::json& summary);
  // Returns the number, counted from 0, of the first epoch that is not shown yet. Earlier epochs
  // were shown, or ended before this coordinator started. The caller asks for statuses whose
  // history begins with the returned epoch.
  uint64_t epochs_shown() const { return epochs_shown_; }
  // Writes a line such as "worker:1 died (signal 9) and was restarted".
  void Event(const std::string& kind, const std::string& text);
  // Writes how the job ended, such as "done: all batches are applied".
  void Verdict(const std::string& status, const std::string& reason);
  void End();  // removes the bar, so that a line can be written in its place

 private:
  void ShowEpochs(const nlohmann::json& history, bool evaluating);
  void ShowEvaluations(const nlohmann::json& status);
  void ShowCheckpoint(const nlohmann::json& status);
  void ShowWaiting(const nlohmann::json& status);
  void ShowFailure(const nlohmann::json& status);
  void ShowCost(const nlohmann::json& status);
  void ShowSilence(int64_t age_ms, const std::string& problem);
  void ShowLine(const nlohmann::json& status, int64_t age_ms);
  // Returns the text without control characters and, for a terminal, broken between words.
  std::string Laid(const std::string& text) const;
  // Says that the coordinator does not answer, what the job waits for, or that batches are computed
  // again; "" if nothing of that is the case.
  std::string Note(const nlohmann::json& status, int64_t age_ms) const;

  static constexpr double kWaitingSecondsLeast = 1;
  static constexpr double kProgressSecondsLeast = 1;  // between JSON objects of progress
  static constexpr double kQuietSecondsMost = 60;     // the most without a line in Style::kLines
  static constexpr int64_t kSilentMs = 3000;          // age of a status without a newer one

  const Style style_;
  std::ostream& out_;
  const std::function<size_t()> columns_;
  const bool coloured_;
  std::map<uint64_t, nlohmann::json> evaluations_shown_;  // the last shown metrics, by epoch
  uint64_t epochs_ = 0;                  // the job's number of epochs in the newest status
  std::set<std::string> refused_shown_;  // names of the refused checkpoints that were shown
  std::string failure_;                  // the last shown failure of a batch or program
  // How often programs of the user were started again, by the newest status.
  uint64_t program_losses_ = 0;
  std::string checkpoint_problem_;  // the last shown problem of checkpoints
  // checkpoint_problem_ was shown as the reason why a job goes on whose batches are all done.
  bool checkpoint_waits_ = false;
  uint64_t epochs_shown_ = 0;
  // What the job waits for in the newest status, without digits; "" if the job does not wait.
  std::string waiting_;
  double waiting_since_ = 0;    // the job's seconds when waiting_ began
  bool waiting_told_ = false;   // waiting_ has been shown
  bool waiting_shown_ = false;  // a wait was shown, so that "it goes on" has to follow
  bool silence_shown_ = false;  // the coordinator's silence was shown
  bool said_ = true;            // a line was written after the time said_seconds_
  double said_seconds_ = 0;     // the job's seconds at the last line
  bool first_ = true;
  bool cost_shown_ = false;
  bool bar_shown_ = false;
};

// Returns "epoch 2/5  loss 0.2841 accuracy 0.9012  test loss 0.3301 accuracy 0.8841  142,804
// samples/s  12.4 s" for an entry of status["history"]; what the entry lacks is left out. `epochs`
// is the job's number of epochs. If the text does not fit into `columns` columns, the last of which
// stays free, parts are dropped in this order: samples a second, seconds, metrics of training,
// metrics of the test, the test's loss, the training's loss. The epoch always stays. 0 columns: no
// limit.
std::string EpochText(const nlohmann::json& entry, uint64_t epochs, size_t columns = 0);

}  // namespace paracord
