#include "coordinator/core/layout.h"

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

}  // namespace
}  // namespace paracord
