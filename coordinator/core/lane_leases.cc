#include "coordinator/core/lane_leases.h"

#include <algorithm>

#include "coordinator/core/limits.h"

namespace paracord {
namespace {

constexpr int64_t kLeaseMs = 2000;
constexpr uint32_t kRoundsMin = 2;  // one being computed, and one at hand
constexpr uint32_t kRoundsMax = 1024;
constexpr int64_t kMeasureMs = 250;
constexpr int64_t kRestedMs = 10000;  // rounds this long mean that training rested
constexpr uint32_t kGrows = 4;        // the most growth from one measurement to the next
constexpr int64_t kLeftForMs = 200;   // for so long a free lane is reserved for its owner
constexpr int64_t kNotFree = -1;
constexpr double kUsualRounds = 2;  // a lane behind for longer is a straggler's
constexpr int64_t kLateMs = 250;    // with backup workers; includes the delay of reports

}  // namespace

void RoundPace::Begin(uint32_t front, int64_t now_ms) {
  rounds_ = std::max(rounds_, kRoundsMin);
  front_ = front;
  since_ms_ = now_ms;
}

void RoundPace::Note(uint32_t front, int64_t now_ms) {
  const int64_t took_ms = std::max<int64_t>(now_ms - since_ms_, 1);
  if (front < front_) return Begin(front, now_ms);  // a ps lost its state
  const uint32_t rounds = front - front_;
  if (rounds == 0 || (took_ms < kMeasureMs && rounds < rounds_)) return;
  if (took_ms > kRestedMs && rounds > 1) return Begin(front, now_ms);
  const auto fit = static_cast<uint64_t>(kLeaseMs) * rounds / static_cast<uint64_t>(took_ms);
  const uint64_t most = std::min(uint64_t{rounds_} * kGrows, uint64_t{kRoundsMax});
  rounds_ = static_cast<uint32_t>(std::clamp<uint64_t>(fit, kRoundsMin, most));
  front_ = front;
  since_ms_ = now_ms;
}

void LaneLeases::Begin(const SplitTable& table, int64_t now_ms) {
  pace_.Begin(table.front(), now_ms);
  clock_.Begin(table.least(), now_ms);
  dealt_freed_.reset();
  behind_.clear();
  end_ = table.front() + pace_.rounds();
  owners_.assign(table.splits(), 0);
  free_since_ms_.assign(table.splits(), now_ms);
}

void LaneLeases::Deal(const SplitTable& table, std::span<const LaneTaker> takers, int64_t now_ms) {
  asked_ = false;
  dealt_freed_ = table.freed();
  owners_ = ShareLanes(table.Holders(), takers);
  for (uint64_t lane = 0; lane < owners_.size(); ++lane) {
    int64_t& since_ms = free_since_ms_[lane];
    since_ms = !table.IsFree(lane) ? kNotFree : since_ms == kNotFree ? now_ms : since_ms;
  }
}

void LaneLeases::MoveOn(const SplitTable& table, int64_t now_ms) {
  pace_.Note(table.front(), now_ms);
  clock_.Note(table.least(), now_ms);
  const uint32_t front = table.front();
  // Far ahead means that a ps lost its state.
  const bool far = end_ > front + kRoundsMax;
  if (end_ > front + pace_.rounds() / 2 && !far) return;
  end_ = front + pace_.rounds();
  moved_ = true;
}

void LaneLeases::LookBehind(const SplitTable& table, std::optional<double> backup, int64_t now_ms) {
  behind_.clear();
  const std::optional<double> usual_ms = clock_.usual_ms();
  const int64_t least_ms = backup.has_value() && usual_ms.has_value() ? kLateMs : kStragglerMs;
  const double rounds_ms = backup.value_or(kUsualRounds) * usual_ms.value_or(0);
  const int64_t age_ms = std::max(least_ms, static_cast<int64_t>(rounds_ms));
  // A lane that waited for others was not behind before the round began.
  if (now_ms - clock_.began_ms() >= age_ms) behind_ = table.LanesBehind(now_ms - age_ms);
}

bool LaneLeases::RoundIsOld(int64_t now_ms) const {
  const auto usual_ms = static_cast<int64_t>(kUsualRounds * clock_.usual_ms().value_or(0));
  return now_ms - clock_.began_ms() >= std::max(kStragglerMs, usual_ms);
}

bool LaneLeases::StaysWith(uint64_t lane, uint64_t session) const {
  return lane < owners_.size() && owners_[lane] == session;
}

bool LaneLeases::MayTake(uint64_t lane, uint64_t session, int64_t now_ms) const {
  if (StaysWith(lane, session)) return true;
  return lane < owners_.size() && free_since_ms_[lane] != kNotFree &&
         now_ms - free_since_ms_[lane] >= kLeftForMs;
}

}  // namespace paracord
