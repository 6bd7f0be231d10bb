// Workers that may not take part, and why, for people: a reason for each task, and the newest
// refusal. A refused worker may ask again as often as it likes, so at most ten refusals a second
// are logged. Owned by the coordinator's core.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/exit_code.h"
#include "coordinator/core/effects.h"

namespace paracord {

class Refusals {
 public:
  explicit Refusals(Effects& effects) : effects_(effects) {}

  // Answers the join `call` with an order to leave, for `reason`, and passes `logged` to Log.
  void Refuse(CallId call, ExitCode code, const std::string& reason, std::string logged,
              int64_t now_ms);
  // Takes `line` as the newest refusal. Logs it, unless ten were logged in this second.
  void Log(std::string line, int64_t now_ms);
  // Keeps the reason why a task may not take part, until Joined; for at most 100 tasks.
  void Remember(const std::string& task, const std::string& why);
  // The task has a session: forgets its reason, and the newest refusal.
  void Joined(const std::string& task);

  // The reasons given to Remember; key: task.
  const std::map<std::string, std::string>& by_task() const { return by_task_; }
  // The newest refusal; empty if a worker has joined since.
  const std::string& last() const { return last_; }

 private:
  Effects& effects_;
  std::map<std::string, std::string> by_task_;
  std::string last_;
  int64_t since_ms_ = 0;  // when the second began in which refusals are counted
  uint64_t count_ = 0;    // refusals since `since_ms_`
};

}  // namespace paracord
