// Tests who gets shared memory, and what peers may call over it.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/shared_memory.h"
#include "net/echo.h"
#include "net/shared_network.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

class NothingBeneath : public Network {
 public:
  std::unique_ptr<Link> Dial(const std::string& address) override {
    return std::make_unique<RefusingLink>(address);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Service&) override {
    return absl::UnimplementedError("beneath");
  }
};

// A ps that offers shared memory to peers with `access`.
struct Offered {
  explicit Offered(const std::string& name, const Access& access = {})
      : boot(absl::StrCat(name, "-", getpid())) {  // other processes may run the same test
    REQUIRE(EnableSharedMemory());
    absl::StatusOr<std::unique_ptr<Listener>> made =
        SharedNetwork::Offer(boot, echo, std::make_shared<RequestBudget>(64 << 20),
                             SharedConnection::kReplyPatienceMs, access);
    REQUIRE(made.ok());
    listener = *std::move(made);
  }
  std::unique_ptr<Link> Dial() const {
    NothingBeneath beneath;
    return SharedNetwork(beneath).DialBoot("beneath:1", boot);
  }

  const std::string boot;
  mutable Echo echo;
  std::unique_ptr<Listener> listener;
};

TEST_CASE("memory is shared with processes of the same user and of root, and with nobody else") {
  CHECK(SharedNetwork::MayShare(1000, 1000));
  CHECK(SharedNetwork::MayShare(0, 1000));
  CHECK(SharedNetwork::MayShare(0, 0));
  CHECK_FALSE(SharedNetwork::MayShare(1001, 1000));
  CHECK_FALSE(SharedNetwork::MayShare(1000, 0));
  if (geteuid() != 0) return;  // only root can become another user
  const Offered offered("test-users");
  const std::string name = std::string(1, '\0') + "paracord/" + offered.boot;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  name.copy(at.sun_path, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  // Returns what a process of `user` finds at the socket after sending bytes: 0 for the end of the
  // connection, 1 for a connection that waits for more.
  const auto found_by = [&](uid_t user) {
    const pid_t child = fork();
    if (child == 0) {
      const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      if (setuid(user) != 0) _exit(9);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&at), size) != 0) _exit(8);
      pollfd ended{fd, POLLIN, 0};
      _exit(poll(&ended, 1, user == 0 ? 500 : 10000) == 0 ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  CHECK(found_by(0) == 1);
  CHECK(found_by(65534) == 0);
  CHECK(Ask(*offered.Dial(), "/Echo", OnePart("x")).ok());
}

TEST_CASE("a call over shared memory that its peers may not make is refused") {
  const Offered offered("test-rights",
                        Access({.cluster = "lab", .role = PeerRole::kWorker, .index = {}}));
  const auto link = offered.Dial();
  CHECK(absl::IsPermissionDenied(Ask(*link, method::kLoad, OnePart("x")).status()));
  CHECK(offered.echo.handled == 0);
  CHECK(Ask(*link, method::kExchange, OnePart("x")).ok());
}

}  // namespace
}  // namespace paracord
