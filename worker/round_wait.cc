#include "worker/round_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

constexpr int64_t kLongWaitMs = 1500;  // until a status names the lanes waited for
constexpr double kBatchKept = 0.8;     // part of the mean time that each further batch keeps
constexpr int64_t kPatienceMsMin = 20;
constexpr int64_t kAnswerMsMin = 5, kAnswerMsMax = 100;
constexpr int64_t kLateAnswerMs = 25;  // a lane granted meanwhile is computed later

}  // namespace

std::optional<uint64_t> RoundWait::StateFor(const BatchId& batch) const {
  if (plan_.lanes() == 0) return std::nullopt;
  if (sync_) return StateBeforeRoundOf(batch);
  // The first rounds of an epoch need all of the epoch before.
  const uint64_t behind = std::min<uint64_t>(batch.batch(), staleness_);
  const uint64_t state = StateBeforeRoundOf(batch) - behind;
  return state == 0 ? std::nullopt : std::optional(state);
}

// A state of an epoch says nothing of the lanes of another epoch.
bool RoundWait::Reached(const BatchId& batch) const {
  const std::optional<uint64_t> state = StateFor(batch);
  if (!state.has_value()) return true;
  if (sync_) return reached_ == state;
  return reached_.has_value() && *reached_ >= *state &&
         *reached_ / RoundsPerEpoch(plan_) == batch.epoch();
}

std::optional<uint64_t> RoundWait::StateForAll(std::span<const BatchId> batches) const {
  std::optional<uint64_t> all;
  for (const BatchId& batch : batches) {
    const std::optional<uint64_t> state = StateFor(batch);
    // A later state would wait for batches of this worker.
    if (!state.has_value() || *state > StateBeforeRoundOf(batches[0])) continue;
    all = std::max(all, state);
  }
  return all;
}

uint64_t RoundWait::StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const {
  return next.has_value() ? *StateFor(*next) : *StateFor(pushed) + 1;
}

void RoundWait::Computed(int64_t took_ms) {
  const auto took = static_cast<double>(took_ms);
  batch_ms_ = batch_ms_.has_value() ? kBatchKept * *batch_ms_ + (1 - kBatchKept) * took : took;
}

int64_t RoundWait::PatienceMs() const {
  return std::max(kPatienceMsMin, static_cast<int64_t>(*backup_ * *batch_ms_));
}

uint32_t RoundWait::Ask(std::optional<uint64_t> state, int64_t now_ms) {
  if (!backup_.has_value() || !batch_ms_.has_value() || !state.has_value()) return 0;
  if (!asked_.has_value() || *asked_ < *state) {
    asked_ = state;
    asked_ms_ = now_ms;
  }
  const int64_t left_ms = asked_ms_ + PatienceMs() - now_ms;
  return static_cast<uint32_t>(left_ms <= 0 ? kLateAnswerMs
                                            : std::clamp(left_ms, kAnswerMsMin, kAnswerMsMax));
}

std::vector<uint32_t> RoundWait::Late(int64_t now_ms) const {
  const bool late =
      waits() && asked_.has_value() && wanted_ == asked_ && now_ms - asked_ms_ >= PatienceMs();
  return late ? missing_ : std::vector<uint32_t>();
}

int64_t RoundWait::Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome,
                            int64_t took_ms) {
  // Some or all values are current, of an unknown state.
  if (sync_ && (outcome.waits || !state.has_value())) reached_.reset();
  if (!state.has_value()) return 0;
  const bool waited = waits() || outcome.waits;
  if (outcome.waits) {
    waited_ms_ = waited_ms_.value_or(0) + took_ms;
    wanted_ = state;
    missing_ = outcome.missing;
  } else {
    waited_ms_.reset();
    reached_ = state;
  }
  return waited ? took_ms : 0;
}

std::string RoundWait::WaitsFor() const {
  if (waited_ms_.value_or(0) < kLongWaitMs) return "";
  const std::string behind =
      missing_.empty() ? "" : absl::StrCat(" (behind: lanes ", absl::StrJoin(missing_, ", "), ")");
  // The last round that the state contains.
  const uint64_t last = std::max<uint64_t>(*wanted_, 1) - 1;
  const uint64_t rounds = RoundsPerEpoch(plan_);
  return absl::StrCat("round ", last % rounds + 1, " of epoch ", last / rounds + 1, " for ",
                      *waited_ms_ / 1000, " s", behind);
}

}  // namespace paracord
