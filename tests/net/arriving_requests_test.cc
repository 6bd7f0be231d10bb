// Tests how requests that arrive over a gRPC connection count in the request budget.
#include "net/arriving_requests.h"

#include <catch2/catch.hpp>
#include <memory>

namespace paracord {
namespace {

constexpr int64_t kArrivingPatienceMs = 1000;

struct Arriving {
  explicit Arriving(std::shared_ptr<RequestBudget> request_budget, uint64_t call_bytes = 0)
      : requests(
            std::move(request_budget), kArrivingPatienceMs, [this] { ++resumed; },
            [this] { ++dropped; }, call_bytes) {}
  void Headers(uint32_t stream) {
    requests.Passed({Http2Frame::kHeaders, 0, stream}, 10, /*ends=*/true);
  }
  // Passes data of a request, and its end if `last`.
  bool Data(uint32_t stream, uint64_t bytes, bool last = false) {
    const unsigned char flags = last ? Http2Frame::kEndStream : 0;
    requests.Passed({Http2Frame::kData, flags, stream}, bytes, /*ends=*/true);
    return requests.Count();
  }
  void Reset(uint32_t stream) {
    requests.Passed({Http2Frame::kResetStream, 0, stream}, 4, /*ends=*/true);
    requests.Count();
  }

  int resumed = 0, dropped = 0;
  ArrivingRequests requests;
};

TEST_CASE("the requests of a connection count until they are complete or reset") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  {
    Arriving peer(request_budget);
    peer.Headers(1);
    CHECK(peer.Data(1, 100));
    peer.Headers(3);
    CHECK(peer.Data(3, 200));
    CHECK(request_budget->bytes() == 320);
    CHECK(peer.Data(3, 50, /*last=*/true));  // the younger request is complete
    CHECK(request_budget->bytes() == 110);
    peer.Headers(5);
    CHECK(peer.Data(5, 70));
    peer.Reset(1);
    CHECK(request_budget->bytes() == 80);
    CHECK(peer.Data(1, 500));  // the request is no longer kept
    CHECK(peer.Data(7, 500));  // a request without headers
    CHECK(request_budget->bytes() == 80);
    // A frame with the end of a request counts only with its last byte.
    peer.requests.Passed({Http2Frame::kData, Http2Frame::kEndStream, 5}, 20, /*ends=*/false);
    CHECK(peer.requests.Count());
    CHECK(request_budget->bytes() == 100);
    peer.requests.Passed({Http2Frame::kData, Http2Frame::kEndStream, 5}, 1, /*ends=*/true);
    CHECK(request_budget->bytes() == 0);
    peer.Headers(9);
    CHECK(peer.Data(9, 300));
  }
  CHECK(request_budget->bytes() == 0);  // the connection is gone
}

TEST_CASE("a connection waits for room, and the one whose request is the oldest goes on") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  Arriving first(request_budget), second(request_budget);
  for (const uint32_t stream : {1u, 3u}) first.Headers(stream);
  CHECK(first.Data(1, 600));
  second.Headers(1);
  CHECK_FALSE(second.Data(1, 600));
  CHECK(first.Data(3, 600));  // the oldest may exceed the limit
  CHECK(second.resumed == 0);
  CHECK_FALSE(first.Data(1, 1, /*last=*/true));  // now the second is the oldest
  CHECK(second.resumed == 1);
  CHECK(second.Data(1, 1, /*last=*/true));
  CHECK(first.resumed == 1);
  CHECK(first.Data(3, 1, /*last=*/true));
  CHECK(request_budget->bytes() == 0);
  CHECK(first.dropped + second.dropped == 0);
}

TEST_CASE("of connections that were told to go on those that find no room any more wait again") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  uint64_t held = request_budget->Hold(900);
  Arriving oldest(request_budget), second(request_budget), third(request_budget);
  for (Arriving* const each : {&oldest, &second, &third}) each->Headers(1);
  CHECK(oldest.Data(1, 100));
  CHECK_FALSE(second.Data(1, 100));
  CHECK_FALSE(third.Data(1, 100));
  request_budget->End(held);
  CHECK(second.resumed == 1);
  CHECK(third.resumed == 1);
  held = request_budget->Hold(900);
  CHECK_FALSE(second.requests.Count());
  request_budget->End(held);
  CHECK(second.resumed == 2);
  CHECK(third.resumed == 1);  // the third has not said that it waits
  CHECK(third.requests.Count());
}

TEST_CASE("a complete request keeps its room until it is answered") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  const uint64_t held = request_budget->Hold(950);
  Arriving first(request_budget), second(request_budget);
  first.Headers(1);
  CHECK(first.Data(1, 30));
  second.Headers(1);
  CHECK_FALSE(second.Data(1, 40));
  request_budget->End(held);
  CHECK(second.resumed == 1);
}

TEST_CASE("a connection that alone takes more than there is for all is dropped") {
  const auto share = std::make_shared<MemoryShare>(/*bytes_max=*/1000, /*spare=*/500);
  const auto request_budget = std::make_shared<RequestBudget>(share);
  const uint64_t held = request_budget->Hold(900);
  Arriving peer(request_budget);
  for (uint32_t stream = 1; stream <= 5; stream += 2) {
    peer.Headers(stream);
    peer.Data(stream, 180);
  }
  CHECK(peer.dropped == 0);
  peer.Data(5, 200);
  CHECK(peer.dropped == 1);
  request_budget->End(held);
}

TEST_CASE("a request counts before its first byte, and no more once it is answered") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  Arriving peer(request_budget, /*call_bytes=*/100);
  for (const uint32_t stream : {1u, 3u, 5u}) peer.Headers(stream);
  peer.requests.Count();
  CHECK(request_budget->bytes() == 330);
  peer.requests.Answered({Http2Frame::kHeaders, 0, 3}, /*ends=*/true);  // more frames follow
  CHECK(request_budget->bytes() == 330);
  peer.requests.Answered({Http2Frame::kHeaders, Http2Frame::kEndStream, 3}, /*ends=*/true);
  CHECK(request_budget->bytes() == 220);
  peer.requests.Answered({Http2Frame::kResetStream, 0, 5}, /*ends=*/true);
  CHECK(request_budget->bytes() == 110);
  CHECK(peer.Data(5, 500));  // unknown request
  CHECK(request_budget->bytes() == 110);
  CHECK(peer.requests.resets() == 0);
  peer.Reset(1);
  CHECK(peer.requests.resets() == 1);
  CHECK(request_budget->bytes() == 0);
}

TEST_CASE("what a connection gives back is no progress of what it sends") {
  int64_t now_ms = 0;
  const auto request_budget = std::make_shared<RequestBudget>(std::make_shared<MemoryShare>(80000),
                                                              0, [&] { return now_ms; });
  Arriving slow(request_budget), other(request_budget);
  slow.Headers(1);
  slow.Headers(3);
  slow.Data(1, 90000);
  slow.Data(3, 50000);
  other.Headers(1);
  CHECK_FALSE(other.Data(1, 10));
  for (int i = 0; i < 4; ++i) {
    now_ms += kArrivingPatienceMs / 3;
    if (i == 1) slow.Reset(3);
    request_budget->Look();
  }
  CHECK(slow.dropped == 1);
}

TEST_CASE("a connection may not begin requests without end") {
  Arriving peer(std::make_shared<RequestBudget>(1 << 30));
  for (uint32_t i = 0; i < ArrivingRequests::kRequestsMax; ++i) peer.Headers(2 * i + 1);
  CHECK_FALSE(peer.requests.TooMany());
  peer.Headers(2 * ArrivingRequests::kRequestsMax + 1);
  CHECK(peer.requests.TooMany());
}

}  // namespace
}  // namespace paracord
