// Streams between nodes, which are workers with a ps.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "net/stream_pair.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

TEST_CASE("a client believes the worker at an address as the ps of its index alone") {
  const TestCa ca("lab");
  // Worker 1's certificate, or every worker's.
  const auto uri = GENERATE(as<std::string>(), "/1", "");
  CAPTURE(uri);
  const TestProcess node(ca, ca.Issue("URI:spiffe://lab/worker" + uri));
  Echo echo;
  const auto request_budget = std::make_shared<RequestBudget>(uint64_t{1} << 30);
  auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  (*multiplexer)
      ->Open(
          {&echo, request_budget, uint64_t{1} << 20}, [](int fd) { close(fd); }, node.credentials);
  const std::string address = (*multiplexer)->address();
  const auto ask_in = [&](const std::vector<std::string>& nodes) {
    const TestProcess process(ca, ca.Issue("URI:spiffe://lab/worker/2"), /*token=*/false,
                              {.ps = nodes, .coordinator = false});
    const auto link = MakeStreamLink(std::make_unique<RefusingLink>(address), process.credentials);
    return Ask(*link, method::kExchange, OnePart("x")).status();
  };
  CHECK(ask_in({"a:1", address, "c:1"}).ok());
  CHECK(echo.handled == 1);
  const bool every = uri.empty();
  CHECK(ask_in({address, "b:1", "c:1"}).ok() == every);
  const int before = echo.handled;
  // The link beneath refuses calls that do not use a stream.
  CHECK(absl::IsUnimplemented(ask_in({"a:1", "b:1", "c:1"})));
  CHECK(absl::IsUnimplemented(ask_in({})));  // a caller whose cluster has ps
  CHECK(echo.handled == before);
}

}  // namespace
}  // namespace paracord
