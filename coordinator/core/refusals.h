// Workers that may not take part, and why, for people: by task, and the newest. A refused worker
// may ask again as often as it likes, so only some refusals in a second are logged. Owned by the
// core.
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

  // Tells a worker that asked to join to leave, and logs the refusal, unless there are too many.
  void Refuse(CallId call, ExitCode code, const std::string& reason, std::string logged,
              int64_t now_ms);
  // Logs a refusal, unless there are too many.
  void Log(std::string line, int64_t now_ms);
  // Remembers why a task may not take part, until Joined.
  void Remember(const std::string& task, const std::string& why);
  void Joined(const std::string& task);

  const std::map<std::string, std::string>& by_task() const { return by_task_; }
  // The newest refusal; empty if a worker has joined since.
  const std::string& last() const { return last_; }

 private:
  Effects& effects_;
  std::map<std::string, std::string> by_task_;
  std::string last_;
  int64_t since_ms_ = 0;
  uint64_t count_ = 0;  // refusals since `since_ms_`
};

}  // namespace paracord
