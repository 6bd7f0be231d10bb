#include "coordinator/core/refusals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_text.h"
#include "coordinator/core/sessions.h"

namespace paracord {
namespace {

constexpr uint64_t kLoggedMax = 10;  // in a second
constexpr size_t kShownMax = 100;

}  // namespace

void Refusals::Refuse(CallId call, ExitCode code, const std::string& reason, std::string logged,
                      int64_t now_ms) {
  effects_.Emit(
      AnswerJoin{call, LeaveReply<JoinReply>({static_cast<int>(code), Sendable(reason)})});
  Log(std::move(logged), now_ms);
}

void Refusals::Log(std::string line, int64_t now_ms) {
  last_ = line;
  if (now_ms - since_ms_ >= 1000) {
    if (count_ > kLoggedMax) {
      effects_.Warn(absl::StrCat(count_ - kLoggedMax, " more joins were refused"));
    }
    since_ms_ = now_ms;
    count_ = 0;
  }
  if (++count_ <= kLoggedMax) effects_.Warn(std::move(line));
}

void Refusals::Remember(const std::string& task, const std::string& why) {
  if (by_task_.size() < kShownMax || by_task_.contains(task)) by_task_[task] = why;
}

void Refusals::Joined(const std::string& task) {
  last_.clear();
  by_task_.erase(task);
}

}  // namespace paracord
