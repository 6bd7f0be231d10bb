// Tests which streams a listener ends by itself: those whose certificate is believed no more, and
// those whose peer never calls.
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "net/stream_pair.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

// A ps with an echo service, and a worker.
struct Served {
  Served() {
    absl::StatusOr<std::unique_ptr<Door>> made = Door::Listen("127.0.0.1:0");
    REQUIRE(made.ok());
    door = *std::move(made);
    door->Open(
        {&echo, intake, uint64_t{1} << 20}, [](int fd) { close(fd); }, ps.credentials);
  }
  std::unique_ptr<Link> Dial(const TestProcess& as) const {
    return MakeStreamLink(std::make_unique<RefusingLink>(door->address()), as.credentials);
  }
  int Connect() const {
    NameLookup name(door->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 1000);
    REQUIRE(fd.ok());
    return *fd;
  }

  const TestCa ca{"lab"};
  TestProcess ps{ca, ca.Issue("URI:spiffe://lab/ps/0")};
  TestProcess worker{ca, ca.Issue("URI:spiffe://lab/worker/3")};
  Echo echo;
  const std::shared_ptr<Intake> intake = std::make_shared<Intake>(uint64_t{1} << 20);
  std::unique_ptr<Door> door;
};

TEST_CASE("a stream ends soon after its certificate is believed no more") {
  Served cluster;
  TestProcess brief(cluster.ca, cluster.ca.Issue("URI:spiffe://lab/worker/3", /*seconds=*/2));
  const auto link = cluster.Dial(brief);
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
  // The link beneath refuses what no stream takes.
  CHECK(Soon([&] { return !Ask(*link, method::kExchange, OnePart("x")).ok(); }));
  const auto sound = cluster.Dial(cluster.worker);
  CHECK(Ask(*sound, method::kExchange, OnePart("x")).ok());
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
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());  // as idle, but it has called
}

}  // namespace
}  // namespace paracord
