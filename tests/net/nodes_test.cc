// Streams between nodes, which are workers that serve what a ps does.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "net/stream_pair.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

TEST_CASE("a client believes a worker that is a ps where its own cluster has no ps") {
  const TestCa ca("lab");
  const NodeRights nodes{.ps = true, .coordinator = false};
  const TestProcess node(ca, ca.Issue("URI:spiffe://lab/worker/1"), /*token=*/false, nodes);
  const TestProcess other(ca, ca.Issue("URI:spiffe://lab/worker/2"), /*token=*/false, nodes);
  const TestProcess knows_ps(ca, ca.Issue("URI:spiffe://lab/worker/2"));
  Echo echo;
  const auto intake = std::make_shared<Intake>(uint64_t{1} << 30);
  auto door = Door::Listen("127.0.0.1:0");
  REQUIRE(door.ok());
  (*door)->Open(
      {&echo, intake, uint64_t{1} << 20}, [](int fd) { close(fd); }, node.credentials);
  const auto ask_as = [&](const TestProcess& process) {
    const auto link =
        MakeStreamLink(std::make_unique<RefusingLink>((*door)->address()), process.credentials);
    return Ask(*link, method::kExchange, OnePart("x")).status();
  };
  CHECK(ask_as(other).ok());
  CHECK(echo.handled == 1);
  CHECK(absl::IsUnimplemented(ask_as(knows_ps)));  // by the link beneath
  CHECK(echo.handled == 1);
}

}  // namespace
}  // namespace paracord
