// Received bytes count in the shares of the process's memory budget.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/limit_error.h"
#include "common/memory_budget.h"
#include "net/receive_buffers.h"
#include "tests/net/stream_pair.h"

namespace paracord {
namespace {

TEST_CASE("requests count in their share, and its limit holds from the moment it changes") {
  const auto share = std::make_shared<MemoryShare>(100, 1000);
  RequestBudget request_budget(share);
  CHECK(request_budget.request_bytes_max() == 1000);
  const uint64_t oldest = request_budget.Begin();
  const uint64_t next = request_budget.Begin();
  CHECK(request_budget.Take(next, 90, [] {}));
  CHECK(share->bytes() == 90);
  share->SetMax(50, 500);  // variables took the rest
  bool resumed = false;
  CHECK_FALSE(request_budget.Take(next, 1, [&] { resumed = true; }));
  request_budget.End(oldest);
  CHECK(resumed);  // it is the oldest
  request_budget.End(next);
  CHECK(share->bytes() == 0);
  CHECK(request_budget.request_bytes_max() == 500);
}

TEST_CASE("a request above what one request may take is refused, and the next is served") {
  Pair pair;
  pair.link = nullptr;
  pair.request_budget =
      std::make_shared<RequestBudget>(std::make_shared<MemoryShare>(1 << 20, 1000));
  pair.Open("127.0.0.1:0");
  pair.link = pair.Dial();
  const auto large = Ask(*pair.link, "/Echo", OnePart(std::string(1001, 'x')));
  CHECK(IsLimit(large.status()));
  CHECK(absl::StartsWith(
      large.status().message(),
      absl::StrCat(pair.multiplexer->address(), ": a request of more than 1000 B")));
  CHECK(absl::StrContains(large.status().message(), "--memory-limit"));
  CHECK(Ask(*pair.link, "/Echo", OnePart(std::string(1000, 'x'))).ok());
  CHECK(pair.echo.handled == 1);
}

TEST_CASE("receive buffers that nobody uses are kept as far as their share has room") {
  const auto share = std::make_shared<MemoryShare>(2 * kReceiveBufferBytes, 0);
  KeepReceiveBuffersIn(share);
  std::vector<char*> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(TakeReceiveBuffer());
  CHECK(share->bytes() == 0);
  for (char* const buffer : buffers) GiveReceiveBuffer(buffer);
  CHECK(share->bytes() == 2 * kReceiveBufferBytes);
  char* const again = TakeReceiveBuffer();
  CHECK(share->bytes() == kReceiveBufferBytes);
  GiveReceiveBuffer(again);
  KeepReceiveBuffersIn(std::make_shared<MemoryShare>(64 * kReceiveBufferBytes));
  CHECK(share->bytes() == 0);
}

}  // namespace
}  // namespace paracord
