#include "coordinator/core/shutdown.h"

#include <utility>

#include "common/status_text.h"

namespace paracord {
namespace {

constexpr int64_t kTellMs = 2000;  // after the end, to tell everybody
constexpr int64_t kAskMs = 500;    // after the end, for workers that are about to ask

}  // namespace

void Shutdown::Plan(Ending ending, int64_t deadline_ms) {
  ending_ = std::move(ending);
  deadline_ms_ = deadline_ms;
}

void Shutdown::Decide(ExitCode code, const std::string& reason, bool alone, int64_t now_ms) {
  if (decided()) return;
  ended_ms_ = now_ms;
  exit_ = Exit{static_cast<int>(code), Sendable(reason)};
  alone_ = alone || code == ExitCode::kDrained || code == ExitCode::kFenced;
}

void Shutdown::Fenced() {
  if (alone_) exit_->code = static_cast<int>(ExitCode::kFenced);
}

bool Shutdown::ExitsNow(const Others& others, std::optional<int64_t> formed_ms, int64_t now_ms) {
  const bool asked = alone_ || AllAsked(others, formed_ms, now_ms);
  const bool all = others.ps_told && asked && others.written;
  if (exited_ || (!all && now_ms - ended_ms_ <= kTellMs)) return false;
  exited_ = true;
  return true;
}

// Workers that are starting, between two attempts to join, or have just joined hear of the end when
// they ask. If the job is done, later ones learn it from DIR.
bool Shutdown::AllAsked(const Others& others, std::optional<int64_t> formed_ms,
                        int64_t now_ms) const {
  const bool done = exit_->code == static_cast<int>(ExitCode::kDone);
  const bool soon = !formed_ms.has_value() || ended_ms_ - *formed_ms < kTellMs;
  if (soon && !others.workers_named) return false;  // unknown workers may still come
  return others.workers_told || (done && !soon && now_ms - ended_ms_ > kAskMs);
}

}  // namespace paracord
