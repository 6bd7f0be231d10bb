// Streams that a listener ends by itself: those with a certificate that is no longer valid, and
// those without calls.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "net/stream_pair.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

// A ps with an echo service, and a worker.
struct Served {
  Served() {
    absl::StatusOr<std::unique_ptr<PortMultiplexer>> made = PortMultiplexer::Listen("127.0.0.1:0");
    REQUIRE(made.ok());
    multiplexer = *std::move(made);
    multiplexer->Open(
        {&echo, request_budget, uint64_t{1} << 20}, [](int fd) { close(fd); }, ps.credentials);
  }
  std::unique_ptr<Link> Dial(const TestProcess& as) const {
    return MakeStreamLink(std::make_unique<RefusingLink>(multiplexer->address()), as.credentials);
  }
  int Connect() const {
    NameLookup name(multiplexer->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    return *fd;
  }

  const TestCa ca{"lab"};
  TestProcess ps{ca, ca.Issue("URI:spiffe://lab/ps/0")};
  TestProcess worker{ca, ca.Issue("URI:spiffe://lab/worker/3")};
  Echo echo;
  const std::shared_ptr<RequestBudget> request_budget =
      std::make_shared<RequestBudget>(uint64_t{1} << 20);
  std::unique_ptr<PortMultiplexer> multiplexer;
};

TEST_CASE("a stream ends soon after its certificate is believed no more") {
  Served cluster;
  TestProcess brief(cluster.ca, cluster.ca.Issue("URI:spiffe://lab/worker/3", /*seconds=*/4));
  const auto link = cluster.Dial(brief);
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
  // The link beneath refuses calls that no stream takes.
  CHECK(Soon([&] { return !Ask(*link, method::kExchange, OnePart("x")).ok(); }));
  const auto sound = cluster.Dial(cluster.worker);
  CHECK(Ask(*sound, method::kExchange, OnePart("x")).ok());
}

TEST_CASE("a client ends its stream, and the calls on it, once its list revokes the ps") {
  const TestCa ca("lab");
  const PemPair of_ps = ca.Issue("URI:spiffe://lab/ps/0");
  const TestProcess ps(ca, of_ps, /*token=*/true);
  const TestKeys keys(ca.pem(), PemPair());
  keys.Write("token", "a-secret-of-the-cluster");
  keys.Write("revoked.pem", ca.Revoking(ca.Issue("URI:spiffe://lab/ps/9")));
  SecurityOptions options = keys.options();
  options.cert = options.key = "";
  options.token_file = keys.Path("token");
  options.crl = keys.Path("revoked.pem");
  // The link's thread uses the clock and the files, and may outlive the test.
  const auto now_ms = std::make_shared<std::atomic<int64_t>>(1'000'000);
  static PosixFiles files;
  const auto credentials = Credentials::Load(options, files, [now_ms] { return now_ms->load(); });
  REQUIRE(credentials.ok());
  Echo echo;
  auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  (*multiplexer)
      ->Open(
          {&echo, std::make_shared<RequestBudget>(uint64_t{1} << 20), uint64_t{1} << 20},
          [](int fd) { close(fd); }, ps.credentials);
  {
    const auto link =
        MakeStreamLink(std::make_unique<RefusingLink>((*multiplexer)->address()), *credentials);
    CHECK(Ask(*link, "/Echo", OnePart("x")).ok());
    auto parked = AskLater(*link, "/Park", OnePart("x"), 60000);
    keys.Write("revoked.pem", ca.Revoking(of_ps));
    *now_ms += 5000;
    REQUIRE(parked.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
    CHECK(absl::IsUnavailable(parked.get().status()));
    CHECK(Soon([&] { return echo.cancelled == 1; }));
    CHECK(
        // Refused by the link beneath.
        absl::IsUnimplemented(Ask(*link, "/Echo", OnePart("x")).status()));
  }
}

TEST_CASE("a stream whose peer never calls ends, and gives its place to others") {
  Served cluster;
  const auto keys = cluster.worker.credentials->Current();
  auto idle = TlsChannel::Make(cluster.Connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(idle.ok());
  REQUIRE((*idle)->HandshakeWithin(5000).ok());
  REQUIRE(GreetStream(**idle, 5000));
  const auto link = cluster.Dial(cluster.worker);
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
  pollfd ended{(*idle)->fd(), POLLIN, 0};
  CHECK(poll(&ended, 1, 10000) == 1);
  char byte = 0;
  iovec room{&byte, 1};
  CHECK((*idle)->Receive({&room, 1}) <= 0);
  // Just as idle, but with a call behind it.
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
}

}  // namespace
}  // namespace paracord
