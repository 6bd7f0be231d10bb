// A gRPC connection without calls.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "net/grpc/network.h"
#include "net/name_lookup.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

struct Yes : Service {
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(Parts{absl::Cord("yes")});
  }
};

absl::Status Ask(Link& link) {
  std::promise<absl::Status> answered;
  link.Call("/t/ask", Parts{absl::Cord("?")}, 5000,
            [&](const absl::StatusOr<absl::Cord>& reply) { answered.set_value(reply.status()); });
  return answered.get_future().get();
}

// Reads HTTP/2 frames until one of `type`. Returns false if the connection ends or stays silent.
bool ReadUntil(int fd, char type) {
  std::string bytes;
  while (true) {
    while (bytes.size() >= 9) {
      if (bytes[3] == type) return true;
      const size_t body = static_cast<size_t>(static_cast<unsigned char>(bytes[0])) << 16 |
                          static_cast<size_t>(static_cast<unsigned char>(bytes[1])) << 8 |
                          static_cast<size_t>(static_cast<unsigned char>(bytes[2]));
      if (bytes.size() < 9 + body) break;
      bytes.erase(0, 9 + body);
    }
    pollfd ready{fd, POLLIN, 0};
    char more[4096];
    const ssize_t got = poll(&ready, 1, 10000) > 0 ? recv(fd, more, sizeof more, 0) : -1;
    if (got <= 0) return false;
    bytes.append(more, static_cast<size_t>(got));
  }
}

TEST_CASE("a connection without calls is told to go, and the next call makes another one") {
  GrpcNetwork network({.idle_ms = 200});
  Yes service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  NameLookup name((*listener)->address());
  const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
  REQUIRE(fd.ok());
  const std::string hello = std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
                            std::string("\0\0\0\4\0\0\0\0\0", 9);  // with empty SETTINGS
  REQUIRE(send(*fd, hello.data(), hello.size(), 0) == static_cast<ssize_t>(hello.size()));
  constexpr char kGoAway = 7;
  CHECK(ReadUntil(*fd, kGoAway));
  close(*fd);

  const auto link = network.Dial((*listener)->address());
  for (int i = 0; i < 2; ++i) {
    // On a busy machine a call may hit a connection that is closing; callers retry.
    bool answered = false;
    for (int tries = 0; tries < 5 && !answered; ++tries) answered = Ask(*link).ok();
    CHECK(answered);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  }
}

}  // namespace
}  // namespace paracord
