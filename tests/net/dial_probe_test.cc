// Tests the findings of a probe about a peer that calls do not reach.
#include "net/dial_probe.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "net/stream_pair.h"
#include "proto/protocol.h"
#include "security/tls_context.h"

namespace paracord {
namespace {

std::string Why(const std::string& address, Credentials* credentials = nullptr) {
  NameLookup name(address);
  return WhyNotReached(name, credentials, 2000);
}

TEST_CASE("an address where no process listens is told from one where one does") {
  const TestDirectory directory;
  const std::string path = "unix:" + directory / "socket";
  CHECK(Why(path) == "connection refused: no process listens at " + path);
  std::string free;
  {
    const auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
    REQUIRE(multiplexer.ok());
    free = (*multiplexer)->address();
    CHECK(Why(free) == "what listens at " + free +
                           " takes connections and says nothing: the process hangs, or is stopped");
  }
  CHECK(Why(free) == "connection refused: no process listens at " + free);
  // A name server may be silent for longer than the probe waits.
  CHECK_THAT(Why("nowhere.invalid:1"),
             Catch::Contains("does not resolve") || Catch::Contains("has not resolved so far"));
}

TEST_CASE("a probe says which end's certificate is refused, and why") {
  const TestCa ca("lab");
  TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  Echo echo;
  auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  (*multiplexer)
      ->Open(
          {&echo, std::make_shared<RequestBudget>(1 << 20), 1 << 20}, [](int fd) { close(fd); },
          ps.credentials);
  const std::string& address = (*multiplexer)->address();
  TestProcess worker(ca, ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK(Why(address, worker.credentials.get()).empty());

  TestProcess brief(ca, ca.Issue("URI:spiffe://lab/worker/0", /*seconds=*/2));
  sleep(3);  // until the certificate has expired
  std::string why;
  CHECK(Soon([&] {  // a busy peer may say so later than a probe waits for it
    why = Why(address, brief.credentials.get());
    return !why.empty();
  }));
  CHECK_THAT(why, Catch::StartsWith("the peer says that the own certificate has expired"));
  const TestCa other("other");
  TestProcess misled(other, other.Issue("URI:spiffe://lab/worker/0"));
  CHECK_THAT(
      Why(address, misled.credentials.get()),
      Catch::StartsWith("TLS: its certificate: it is signed by another CA than those of --tls-ca"));
}

TEST_CASE("a probe of a role that may have no stream is not counted as one that was refused") {
  const TestCa ca("lab");
  TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  TestProcess coordinator(ca, ca.Issue("URI:spiffe://lab/coordinator"));
  Echo echo;
  auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  const auto refused = std::make_shared<RefusedPeers>();
  (*multiplexer)
      ->Open(
          {&echo, std::make_shared<RequestBudget>(1 << 20), 1 << 20}, [](int fd) { close(fd); },
          ps.credentials, refused);
  const std::string& address = (*multiplexer)->address();
  CHECK(Why(address, coordinator.credentials.get()).empty());

  // A peer that greets wants a stream. If the stream is counted, the earlier probe would have been,
  // too.
  const auto link =
      MakeStreamLink(std::make_unique<RefusingLink>(address), coordinator.credentials);
  CHECK_FALSE(Ask(*link, method::kExchange, OnePart("x")).ok());
  const auto count = [&refused] {
    uint64_t sum = 0;
    for (const auto& [who, times] : refused->counts()) sum += times;
    return sum;
  };
  CHECK(Soon([&] { return count() > 0; }));
  CHECK(count() == 1);
}

}  // namespace
}  // namespace paracord
