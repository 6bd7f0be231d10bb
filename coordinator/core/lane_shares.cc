#include "coordinator/core/lane_shares.h"

#include <algorithm>
#include <functional>
#include <map>

namespace paracord {
namespace {

struct Taker {
  uint64_t session = 0;
  std::vector<uint64_t> held = {};  // lanes, ascending
  uint64_t share = 0;               // how many lanes it is to have
  uint64_t at = 0;                  // about where its run begins
};

// Returns those that are to have lanes, those that hold most first, with their shares.
std::vector<Taker> TakersOf(std::span<const uint64_t> holders, std::span<const uint64_t> sessions) {
  std::map<uint64_t, std::vector<uint64_t>> held;
  for (uint64_t lane = 0; lane < holders.size(); ++lane) held[holders[lane]].push_back(lane);
  std::vector<Taker> takers;
  for (const uint64_t session : sessions) {
    Taker& taker = takers.emplace_back(Taker{.session = session});
    if (const auto found = held.find(session); found != held.end()) taker.held = found->second;
  }
  std::ranges::stable_sort(takers, std::greater(),
                           [](const Taker& each) { return each.held.size(); });
  takers.resize(std::min(takers.size(), holders.size()));
  for (uint64_t i = 0; i < takers.size(); ++i) {
    const bool one_more = i < holders.size() % takers.size();
    takers[i].share = holders.size() / takers.size() + (one_more ? 1 : 0);
  }
  return takers;
}

// Returns the lanes that stay with nobody: free ones, and what takers hold beyond their shares.
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
                                 std::span<const uint64_t> sessions) {
  std::vector<uint64_t> shares(holders.size(), 0);
  std::vector<Taker> takers = TakersOf(holders, sessions);
  // Who has no lane yet begins where lanes move, so that the others' runs stay where they are.
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
