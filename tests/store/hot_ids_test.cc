#include "store/hot_ids.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "common/counter_random.h"
#include "common/mix.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

TEST_CASE("the ids that most pushes name are found among many that come once") {
  HotIds hot;
  uint64_t draw = 0;
  for (int push = 0; push < 4000; ++push) {
    std::set<uint64_t> ids = {7};                      // in each push
    if (push % 2 == 0) ids.insert(uint64_t{1} << 63);  // in every second push
    while (ids.size() < 50) ids.insert(RandomBits(1, draw++) % 1000000 + 1000);
    hot.Push(std::vector<uint64_t>(ids.begin(), ids.end()));
  }
  const std::vector<HotIds::Hot> top = hot.Top(2);
  REQUIRE(top.size() == 2);
  CHECK(top[0].id == 7);
  CHECK(top[0].share == Approx(1).margin(0.3));
  CHECK(top[1].id == uint64_t{1} << 63);
  CHECK(top[1].share == Approx(0.5).margin(0.2));
  CHECK(hot.Top(64).size() < 10);
}

// The ids of pushes of `draws` rows with frequencies by Zipf's law, and the number of pushes that
// named each id.
struct SkewedStream {
  explicit SkewedStream(size_t draws, int pushes) {
    uint64_t draw = 0;
    for (int push = 0; push < pushes; ++push) {
      std::vector<uint64_t> ids;
      for (size_t i = 0; i < draws; ++i) {
        const double uniform = static_cast<double>(RandomBits(7, draw++) >> 11) * 0x1p-53;
        ids.push_back(Mix64(static_cast<uint64_t>(std::pow(kIds, uniform))));
      }
      std::ranges::sort(ids);
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      for (const uint64_t id : ids) ++named[id];
      hot.Push(ids);
    }
    for (auto& [id, count] : named) count /= pushes;
  }
  static constexpr double kIds = 2e6;
  HotIds hot;
  absl::flat_hash_map<uint64_t, double> named;  // share of the pushes, keyed by id
};

TEST_CASE("shares of hot ids are those of an exact count, however many rows a push has") {
  const auto [draws, pushes] = GENERATE(table<size_t, int>({{30, 6000}, {1500, 2000}}));
  CAPTURE(draws, pushes);
  if (Sanitized() && draws > 30) return;
  const SkewedStream stream(draws, pushes);
  std::vector<double> exact;
  for (const auto& [id, share] : stream.named) exact.push_back(share);
  std::ranges::sort(exact, std::ranges::greater());
  const std::vector<HotIds::Hot> top = stream.hot.Top(4);
  REQUIRE(top.size() == 4);
  for (size_t i = 0; i < top.size(); ++i) {
    const double share = stream.named.at(top[i].id);
    CAPTURE(i, top[i].share, share, exact[i]);
    CHECK(top[i].share == Approx(share).margin(0.25));
    CHECK(share > 0.6 * exact[i]);  // one of the hottest
  }
}

TEST_CASE("ids that come as often as each other are told, if at all, with about their share") {
  constexpr uint64_t kDrawn = 75;
  const auto [rows, pushes] = GENERATE(table<size_t, int>({{1, 200000}, {20, 20000}}));
  CAPTURE(rows, pushes);
  const double share = static_cast<double>(rows) / kDrawn;
  HotIds hot;
  uint64_t draw = 0;
  double most = 0;
  for (int push = 0; push < pushes; ++push) {
    std::set<uint64_t> ids;
    while (ids.size() < rows) ids.insert(Mix64(RandomBits(3, draw++) % kDrawn));
    hot.Push(std::vector<uint64_t>(ids.begin(), ids.end()));
    if (push % 500 != 0) continue;
    for (const HotIds::Hot& one : hot.Top(5)) most = std::max(most, one.share);
  }
  CHECK(most < 1.7 * share);
  CHECK_FALSE(hot.Top(5).empty());
}

TEST_CASE("one id that all pushes name stands out of thousands that come once") {
  HotIds hot;
  uint64_t next = 1000;
  for (int push = 0; push < 3000; ++push) {
    std::vector<uint64_t> ids = {7};
    while (ids.size() < 3000) ids.push_back(next++);
    hot.Push(ids);
  }
  const std::vector<HotIds::Hot> top = hot.Top(4);
  REQUIRE(top.size() == 1);
  CHECK(top[0].id == 7);
  CHECK(top[0].share == Approx(1).margin(0.25));
}

TEST_CASE("a table without pushes has no hot ids") {
  HotIds hot;
  CHECK(hot.Top(3).empty());
  hot.Push({});
  hot.Push(std::vector<uint64_t>{1, 2, 3});
  CHECK(hot.Top(3).empty());
}

}  // namespace
}  // namespace paracord
