#include "coordinator/core/move.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr uint32_t kMoveTriesMax = 3;
constexpr uint32_t kPreparationsMax = 6;  // consecutive checkpoints
constexpr int64_t kShortMs = 1000;        // preparation this short is the last one

const char* PhaseText(Move::Phase phase) {
  switch (phase) {
    case Move::Phase::kNone:
      return "none";
    case Move::Phase::kLooking:
      return "looking at the new ps";
    case Move::Phase::kPreparing:
      return "preparing";
    case Move::Phase::kStopping:
    case Move::Phase::kClosing:
      return "writing the closing checkpoint";
    case Move::Phase::kChecking:
      return "asking the ps of the new layout";
    case Move::Phase::kWriting:
      return "writing the layout";
    case Move::Phase::kSettling:
      return "loading";
  }
  return "";
}

}  // namespace

std::string Move::Name() const {
  if (heals()) return absl::StrCat("the copying of ", plan_.partitions, " partitions");
  return absl::StrCat("the move to ", plan_.to.ps.size(), " ps");
}

std::string Move::DoneText() const {
  if (heals()) return absl::StrCat(plan_.partitions, " partitions have second holders");
  return absl::StrCat("the job has moved to ", plan_.to.ps.size(), " ps");
}

std::string Move::Why() const {
  if (heals()) return absl::StrCat(plan_.partitions, " partitions get second holders");
  return absl::StrCat("the job moves to ", plan_.to.ps.size(), " ps");
}

void Move::Begin(Plan plan, int64_t now_ms) {
  *this = Move();
  plan_ = std::move(plan);
  phase_ = Phase::kLooking;
  asked_ms_ = since_ms_ = now_ms;
}

void Move::BeginClosed(Plan plan, std::optional<Layout> before, int64_t now_ms) {
  Begin(std::move(plan), now_ms);
  Close(now_ms);
  Write(std::move(before));
}

void Move::Prepare(const std::string& checkpoint, int64_t now_ms) {
  phase_ = Phase::kPreparing;
  preparing_ = checkpoint;
  prepare_ms_ = std::exchange(wanted_ms_, std::nullopt).value_or(now_ms);
  counted_ = wants_checkpoint_ = false;
}

void Move::WantCheckpoint(int64_t now_ms) {
  wants_checkpoint_ = true;
  if (!wanted_ms_.has_value()) wanted_ms_ = now_ms;
}

bool Move::Prepared(int64_t now_ms) {
  if (std::exchange(counted_, true)) return enough_;
  const int64_t took_ms = now_ms - prepare_ms_;
  const bool shrinks = !took_ms_.has_value() || took_ms < *took_ms_ * 9 / 10;
  took_ms_ = took_ms;
  // The first preparation reads a whole checkpoint, so it never suffices, however fast it was.
  enough_ =
      ++preparations_ > 1 && (took_ms < kShortMs || !shrinks || preparations_ >= kPreparationsMax);
  return enough_;
}

void Move::Stop(int64_t now_ms) {
  phase_ = Phase::kStopping;
  stopped_ms_ = now_ms;
}

void Move::Close(int64_t now_ms) {
  phase_ = Phase::kClosing;
  closed_ = true;
  stopped_ms_ = now_ms;
}

void Move::Done(int64_t now_ms) {
  phase_ = Phase::kNone;
  done_ms_ = now_ms;
  problem_.clear();
}

bool Move::Again(const std::string& why, int64_t now_ms) {
  if (++tries_ >= kMoveTriesMax) {
    GiveUp(why);
    return false;
  }
  problem_ = why;
  phase_ = Phase::kLooking;
  closed_ = false;
  stopped_ms_.reset();
  preparing_.clear();
  preparations_ = 0;
  took_ms_.reset();
  wanted_ms_.reset();
  since_ms_ = now_ms;
  return true;
}

void Move::GiveUp(const std::string& why) {
  phase_ = Phase::kNone;
  closed_ = false;
  problem_ = why;
}

nlohmann::json Move::ToJson(int64_t now_ms) const {
  if (plan_.to.ps.empty()) return nullptr;
  const auto seconds = [](int64_t ms) { return static_cast<double>(ms) / 1000; };
  const bool ended = !under_way();
  nlohmann::json move = {{"phase", !ended                 ? PhaseText(phase_)
                                   : done_ms_.has_value() ? "done"
                                                          : "given up"},
                         {"ps", plan_.to.ps.size()},
                         {"version", plan_.to.version},
                         {"partitions", plan_.partitions},
                         {"bytes", plan_.bytes}};
  if (heals()) move["copies"] = true;
  if (!ended || done_ms_.has_value()) {
    move["seconds"] = seconds(done_ms_.value_or(now_ms) - asked_ms_);
  }
  if (stopped_ms_.has_value() && move.contains("seconds")) {
    move["stopped_seconds"] = seconds(done_ms_.value_or(now_ms) - *stopped_ms_);
  }
  const std::string& problem = ended || waits_for_.empty() ? problem_ : waits_for_;
  if (!problem.empty()) move["problem"] = problem;
  return move;
}

}  // namespace paracord
