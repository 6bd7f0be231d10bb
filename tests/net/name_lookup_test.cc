#include "net/name_lookup.h"

#include <arpa/inet.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/steady_ms.h"
#include "net/echo.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

using Answer = absl::StatusOr<std::vector<SocketAddress>>;

TEST_CASE("a name server that is silent keeps nobody waiting, and is asked once at a time") {
  std::promise<void> promise;
  const std::shared_future<void> answers = promise.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  NameLookup name("ps-0.test:7401", [answers, asked](const std::string& address) -> Answer {
    if (address != "ps-0.test:7401") return absl::InternalError(address);
    ++*asked;
    answers.wait();
    return std::vector<SocketAddress>(2);
  });
  CHECK(name.Problem().empty());
  const int64_t begun_ms = SteadyMs();
  for (int i = 0; i < 3; ++i) {
    const Answer found = name.Find(20);
    CHECK(absl::IsUnavailable(found.status()));
    CHECK(absl::StrContains(found.status().message(), "ps-0.test has not resolved so far"));
  }
  CHECK(SteadyMs() - begun_ms < 5000);
  CHECK(Soon([&] { return *asked == 1; }));
  CHECK(absl::StrContains(name.Problem(), "ps-0.test has not resolved so far"));
  promise.set_value();
  REQUIRE(Soon([&] { return name.Problem().empty(); }));
  CHECK(name.Find(5000)->size() == 2);
  CHECK(*asked == 2);  // looked up again, since a peer may move
}

TEST_CASE("a name that does not resolve is named, with the reason, until it does") {
  const auto known = std::make_shared<std::atomic<bool>>(false);
  NameLookup name("ps-0.test:7401", [known](const std::string&) -> Answer {
    if (!*known) return absl::InvalidArgumentError("the name ps-0.test does not resolve");
    return std::vector<SocketAddress>(1);
  });
  CHECK(name.Find(5000).status() == absl::UnavailableError("the name ps-0.test does not resolve"));
  CHECK(name.Problem() == "the name ps-0.test does not resolve");
  *known = true;
  CHECK(name.Find(5000).ok());
  CHECK(name.Problem().empty());
}

TEST_CASE("numbers are no names, and are not looked up") {
  for (const char* const address : {"127.0.0.1:1", "[::1]:1", "unix:/tmp/a"}) {
    CHECK_FALSE(HasName(address));
  }
  for (const char* const address : {"localhost:1", "ps-0:1", "127.0.0.1.example:1"}) {
    CHECK(HasName(address));
  }
  NameLookup number("[::1]:7401", [](const std::string&) -> Answer {
    FAIL("asked");
    return absl::NotFoundError("");
  });
  const Answer found = number.Find(0);
  REQUIRE(found.ok());
  CHECK(found->front().at.ss_family == AF_INET6);
}

TEST_CASE("an address that is silent leaves time for the others of its name") {
  const absl::StatusOr<ListeningSockets> full = ListenAt("127.0.0.1:0");
  const absl::StatusOr<ListeningSockets> live = ListenAt("127.0.0.1:0");
  REQUIRE(full.ok());
  REQUIRE(live.ok());
  // Two connections fill the backlog. The next one gets no answer.
  REQUIRE(listen(full->fds[0], 0) == 0);
  NameLookup first(full->address);
  std::vector<int> fds;
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<int> fd = ConnectSocket(first, 50);
    if (fd.ok()) fds.push_back(*fd);
  }
  REQUIRE(fds.size() < 4);
  const auto ask = [silent = full->address, answers = live->address](const std::string&) -> Answer {
    std::vector<SocketAddress> addresses = *ResolveAddress(silent, AI_NUMERICHOST);
    addresses.push_back(ResolveAddress(answers, AI_NUMERICHOST)->front());
    return addresses;
  };
  NameLookup both("both.test:1", ask);
  const int64_t begun_ms = SteadyMs();
  const absl::StatusOr<int> fd = ConnectSocket(both, 3000);
  CHECK(SteadyMs() - begun_ms < 3000);
  REQUIRE(fd.ok());
  CHECK(PeerOf(*fd) == live->address);
  fds.push_back(*fd);
  for (const auto* sockets : {&*full, &*live}) fds.push_back(sockets->fds[0]);
  for (const int open : fds) close(open);
}

}  // namespace
}  // namespace paracord
