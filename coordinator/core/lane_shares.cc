#include "coordinator/core/lane_shares.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace paracord {
namespace {

// Lanes move only if a round takes at most this share of its time afterwards.
constexpr double kWorthMoving = 0.9;

struct Taker {
  uint64_t session = 0;
  double seconds = 1;               // for a batch
  std::vector<uint64_t> held = {};  // lanes, ascending
  uint64_t devices = 1;
  uint64_t share = 0;  // how many lanes it is to have
  uint64_t at = 0;     // where its run begins, approximately
};

// A taker's devices compute one lane each at a time.
double SecondsFor(const Taker& taker, uint64_t lanes) {
  return static_cast<double>((lanes + taker.devices - 1) / taker.devices) * taker.seconds;
}

double SecondsOfRound(const std::vector<Taker>& takers) {
  double most = 0;
  for (const Taker& each : takers) {
    most = std::max(most, SecondsFor(each, each.share));
  }
  return most;
}

// Deals out `lanes` more lanes, each to the taker that would finish one more lane first.
void DealOut(uint64_t lanes, std::vector<Taker>& takers) {
  using Next = std::tuple<double, uint64_t, size_t>;  // seconds with one more, share, taker
  const auto next = [&](size_t i) {
    return Next{SecondsFor(takers[i], takers[i].share + 1), takers[i].share, i};
  };
  std::vector<Next> queue;
  for (size_t i = 0; i < takers.size(); ++i) queue.push_back(next(i));
  std::ranges::make_heap(queue, std::greater());
  for (; lanes > 0; --lanes) {
    std::ranges::pop_heap(queue, std::greater());
    const size_t i = std::get<2>(queue.back());
    ++takers[i].share;
    queue.back() = next(i);
    std::ranges::push_heap(queue, std::greater());
  }
}

// Returns the sessions that get lanes, with their shares, the largest holder first.
std::vector<Taker> TakersOf(std::span<const uint64_t> holders,
                            std::span<const LaneTaker> sessions) {
  std::map<uint64_t, std::vector<uint64_t>> held;
  for (uint64_t lane = 0; lane < holders.size(); ++lane) held[holders[lane]].push_back(lane);
  double known = 0, sum = 0;
  for (const LaneTaker& each : sessions) {
    if (each.seconds > 0) sum += each.seconds, ++known;
  }
  std::vector<Taker> takers;
  for (const LaneTaker& each : sessions) {
    Taker& taker = takers.emplace_back(Taker{.session = each.session, .seconds = each.seconds});
    taker.devices = std::max(each.devices, 1u);
    if (each.seconds <= 0) taker.seconds = known > 0 ? sum / known : 1;
    if (const auto found = held.find(each.session); found != held.end()) taker.held = found->second;
  }
  if (takers.empty()) return takers;
  std::ranges::stable_sort(takers, std::greater(),
                           [](const Taker& each) { return each.held.size(); });
  std::vector<Taker> anew = takers;
  DealOut(holders.size(), anew);
  uint64_t free = holders.size();
  for (Taker& taker : takers) {
    taker.share = taker.held.size();
    free -= taker.share;
  }
  DealOut(free, takers);
  if (SecondsOfRound(anew) < kWorthMoving * SecondsOfRound(takers)) takers = std::move(anew);
  std::erase_if(takers, [](const Taker& each) { return each.share == 0; });
  return takers;
}

// Returns the lanes that change sessions: free lanes, and those beyond a taker's share.
std::vector<uint64_t> LanesThatMove(size_t lanes, const std::vector<Taker>& takers) {
  std::vector<bool> moves(lanes, true);
  for (const Taker& taker : takers) {
    for (size_t i = 0; i < std::min<size_t>(taker.share, taker.held.size()); ++i) {
      moves[taker.held[i]] = false;
    }
  }
  std::vector<uint64_t> moving;
  for (uint64_t lane = 0; lane < lanes; ++lane) {
    if (moves[lane]) moving.push_back(lane);
  }
  return moving;
}

}  // namespace

std::vector<uint64_t> ShareLanes(std::span<const uint64_t> holders,
                                 std::span<const LaneTaker> sessions) {
  std::vector<uint64_t> shares(holders.size(), 0);
  std::vector<Taker> takers = TakersOf(holders, sessions);
  // The run of a taker without lanes begins at a lane that moves: other runs stay.
  const std::vector<uint64_t> moving = LanesThatMove(holders.size(), takers);
  size_t next = 0;
  for (Taker& taker : takers) {
    if (!taker.held.empty()) {
      taker.at = taker.held.front();
    } else {
      taker.at = next < moving.size() ? moving[next] : holders.size();
      next += taker.share;
    }
  }
  std::ranges::stable_sort(takers, {}, &Taker::at);
  uint64_t lane = 0;
  for (const Taker& taker : takers) {
    for (uint64_t i = 0; i < taker.share; ++i) shares[lane++] = taker.session;
  }
  return shares;
}

}  // namespace paracord
