#include "coordinator/core/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "coordinator/core/placement.h"

namespace paracord {
namespace {

using Addresses = std::vector<std::string>;

TEST_CASE("addresses of further ps are told, given at the start, or follow from that of ps 0") {
  const Addresses pods = {"job-ps-0.job-ps:7000", "job-ps-1.job-ps:7000"};
  CHECK(AddressesFor(4, pods, {}, pods).value() ==
        Addresses{"job-ps-0.job-ps:7000", "job-ps-1.job-ps:7000", "job-ps-2.job-ps:7000",
                  "job-ps-3.job-ps:7000"});
  CHECK(AddressesFor(3, pods, {"other:1"}, pods).value().back() == "other:1");
  CHECK(AddressesFor(1, pods, {}, pods).value() == Addresses{"job-ps-0.job-ps:7000"});
  CHECK(AddressesFor(2, {"a:1"}, {}, {"a:1", "b:1"}).value() == Addresses{"a:1", "b:1"});
  CHECK(AddressesFor(2, {"host-0:1"}, {}, {}).value().back() == "host-1:1");
  for (const char* first : {"host:1", "10.0.0.0:1", "unix:/a-0", "[::1]:0", "-0:1"}) {
    const auto addresses = AddressesFor(2, {first}, {}, {});
    INFO(first);
    CHECK(absl::IsInvalidArgument(addresses.status()) == (std::string(first) != "-0:1"));
  }
}

TEST_CASE("rebalancing brings the fullest ps near the mean, moves little and leaves no orphan") {
  for (const uint32_t before : {1u, 2u, 3u, 5u}) {
    for (const uint32_t after : {1u, 2u, 4u, 7u}) {
      std::vector<uint64_t> bytes;
      std::vector<uint32_t> holders;
      for (uint32_t i = 0; i < 64; ++i) {
        bytes.push_back(100 + i % 7);
        holders.push_back(i % before);
      }
      const std::vector<uint32_t> to = Rebalance(after, bytes, holders);
      std::vector<uint64_t> held(after);
      uint64_t moved = 0, forced = 0;
      for (size_t i = 0; i < bytes.size(); ++i) {
        REQUIRE(to[i] < after);
        held[to[i]] += bytes[i];
        if (to[i] != holders[i]) moved += bytes[i];
        if (holders[i] >= after) forced += bytes[i];
      }
      const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
      INFO("from " << before << " to " << after);
      CHECK(Imbalance(held) <= 1.1);
      // A partition moves because its ps leaves, or to fill a new one.
      const uint64_t fills = after > before ? all - all * before / after : 0;
      CHECK(moved <= forced + fills);
      if (before == after) CHECK(moved == 0);
    }
  }
  CHECK(Rebalance(2, std::vector<uint64_t>{0, 0}, {5, 5}) == std::vector<uint32_t>{0, 0});
  CHECK(Rebalance(3, std::vector<uint64_t>{900, 1}, {0, 0}) == std::vector<uint32_t>{1, 0});
}

TEST_CASE("a second is never where the first is, on another host if one is free, and stays") {
  const std::vector<uint64_t> bytes = {40, 30, 20, 10};
  const std::vector<uint32_t> firsts = {0, 1, 2, 0};
  std::vector<CopyPlace> ps = {{"a:1"}, {"a:2"}, {"b:1"}};
  const std::vector<uint32_t> seconds = PlaceSeconds(bytes, firsts, {}, ps);
  CHECK(seconds[0] == 2);  // the only one on the other host
  CHECK(seconds[1] == 2);
  CHECK(seconds[2] != 2);
  CHECK(seconds[3] == 2);
  CHECK(PlaceSeconds(bytes, firsts, seconds, ps) == seconds);
  // One that is away is replaced, and nothing else moves.
  ps[2].available = false;
  const std::vector<uint32_t> others = PlaceSeconds(bytes, firsts, seconds, ps);
  CHECK(others == std::vector<uint32_t>{1, 0, seconds[2], 1});
  ps[1].available = ps[0].available = false;
  CHECK(PlaceSeconds(bytes, firsts, seconds, ps) == std::vector<uint32_t>(4, kNobody));
}

TEST_CASE("seconds are spread by bytes, and no ps gets more of them than it has room for") {
  std::vector<uint64_t> bytes;
  std::vector<uint32_t> firsts;
  for (uint32_t i = 0; i < 64; ++i) {
    bytes.push_back(100 + i % 7);
    firsts.push_back(i % 4);
  }
  std::vector<CopyPlace> ps = {{"a:1"}, {"b:1"}, {"c:1"}, {"d:1"}};
  std::vector<uint64_t> held(4);
  const std::vector<uint32_t> seconds = PlaceSeconds(bytes, firsts, {}, ps);
  for (size_t i = 0; i < bytes.size(); ++i) {
    REQUIRE(seconds[i] != firsts[i]);
    held[seconds[i]] += bytes[i];
  }
  CHECK(Imbalance(held) <= 1.1);
  for (CopyPlace& place : ps) place.room = 250;
  const std::vector<uint32_t> few = PlaceSeconds(bytes, firsts, {}, ps);
  CHECK(std::ranges::count(few, kNobody) == 64 - 2 * 4);
}

TEST_CASE("seconds take over where every partition that is lost has one that can") {
  Layout layout{.version = 3,
                .given = {},
                .ps = {"a", "b", "c"},
                .holders = {0, 1, 2, 1},
                .seconds = {1, 2, 0, 0}};
  std::vector<Standing> ps(3, {.lost = false, .takes = true, .prepared = true});
  CHECK_FALSE(Promoted(layout, ps, false).has_value());
  ps[1].lost = true;
  const std::optional<Layout> next = Promoted(layout, ps, false);
  REQUIRE(next.has_value());
  CHECK(next->version == 4);
  CHECK(next->holders == std::vector<uint32_t>{0, 2, 2, 0});
  CHECK(next->seconds == std::vector<uint32_t>{1, kNobody, 0, kNobody});
  ps[0].prepared = false;
  CHECK_FALSE(Promoted(layout, ps, false).has_value());
  CHECK(Promoted(layout, ps, true) == next);
  ps[0].takes = false;
  CHECK_FALSE(Promoted(layout, ps, true).has_value());
  ps[0] = {.lost = true, .takes = true, .prepared = true};
  CHECK_FALSE(Promoted(layout, ps, true).has_value());
  ps[0].lost = false;
  layout.seconds.clear();
  CHECK_FALSE(Promoted(layout, ps, true).has_value());
}

TEST_CASE("a ps that leaves holds nothing, and its partitions have the other holder alone") {
  const Layout layout{.version = 3,
                      .given = {},
                      .ps = {"a", "b", "c"},
                      .holders = {0, 1, 2, 1},
                      .seconds = {1, 2, 0, kNobody}};
  CHECK_FALSE(Without(layout, {true, true, true}).has_value());
  const Layout first = Without(layout, {false, true, true}).value();
  CHECK(first.version == 4);
  CHECK(first.holders == std::vector<uint32_t>{1, 1, 2, 1});
  CHECK(first.seconds == std::vector<uint32_t>{kNobody, 2, kNobody, kNobody});
  CHECK_FALSE(first.Holds(0));
  // Who leaves is the second one alone.
  Layout thinner = layout;
  thinner.holders = {0, 0, 2, 2};
  thinner.seconds = {1, 1, 0, 0};
  const Layout seconds = Without(thinner, {true, false, true}).value();
  CHECK(seconds.version == 3);
  CHECK(seconds.holders == thinner.holders);
  CHECK(seconds.seconds == std::vector<uint32_t>{kNobody, kNobody, 0, 0});
  // Nobody takes the place of both.
  CHECK_FALSE(Without(thinner, {false, false, true})->holders == thinner.seconds);
  CHECK(Without(thinner, {false, false, true})->seconds[0] == 1);
  thinner.seconds.clear();
  CHECK_FALSE(Without(thinner, {false, true, true}).has_value());
}

}  // namespace
}  // namespace paracord
