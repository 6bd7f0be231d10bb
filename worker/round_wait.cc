#include "worker/round_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

constexpr int64_t kLongWaitMs = 1500;  // until it is said which lanes are waited for

}  // namespace

std::optional<uint64_t> RoundWait::StateFor(const BatchId& batch) const {
  if (!lanes_) return std::nullopt;
  if (sync_) return batch.epoch() * rounds_ + batch.batch();
  // The first rounds of an epoch have all of the epoch before.
  const uint64_t behind = std::min<uint64_t>(batch.batch(), staleness_);
  const uint64_t state = batch.epoch() * rounds_ + batch.batch() - behind;
  return state == 0 ? std::nullopt : std::optional(state);
}

// A state of one epoch says nothing of the lanes of another one.
bool RoundWait::Reached(const BatchId& batch) const {
  const std::optional<uint64_t> state = StateFor(batch);
  if (!state.has_value()) return true;
  if (sync_) return reached_ == state;
  return reached_.has_value() && *reached_ >= *state && *reached_ / rounds_ == batch.epoch();
}

std::optional<uint64_t> RoundWait::StateForAll(std::span<const BatchId> batches) const {
  std::optional<uint64_t> all;
  for (const BatchId& batch : batches) {
    const std::optional<uint64_t> state = StateFor(batch);
    // A later one would wait for this worker's own batches.
    if (!state.has_value() || *state > batches[0].epoch() * rounds_ + batches[0].batch()) continue;
    all = std::max(all, state);
  }
  return all;
}

uint64_t RoundWait::StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const {
  return next.has_value() ? *StateFor(*next) : *StateFor(pushed) + 1;
}

int64_t RoundWait::Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome,
                            int64_t took_ms) {
  // Some of the values, or all, are those of now.
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
  // The last of the rounds that the state has.
  const uint64_t last = std::max<uint64_t>(*wanted_, 1) - 1;
  return absl::StrCat("round ", last % rounds_ + 1, " of epoch ", last / rounds_ + 1, " for ",
                      *waited_ms_ / 1000, " s", behind);
}

}  // namespace paracord
