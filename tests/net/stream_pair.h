// Both ends of a stream in one process, for tests.
#pragma once

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "net/door.h"
#include "net/echo.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
#include "net/stream_link.h"

namespace paracord {

// A door with an echo service behind it, and a link to it.
struct Pair {
  explicit Pair(uint64_t in_flight = uint64_t{1} << 30, uint64_t request_max = uint64_t{1} << 30)
      : intake(std::make_shared<Intake>(in_flight)) {
    static std::atomic<int> number = 0;
    path = absl::StrCat("/tmp/paracord-stream-", getpid(), "-", ++number);
    const bool tcp = GENERATE(false, true);
    CAPTURE(tcp);
    Open(tcp ? "127.0.0.1:0" : "unix:" + path, request_max);
    link = MakeStreamLink(std::make_unique<RefusingLink>(door->address()));
  }
  void Open(const std::string& address, uint64_t request_max = uint64_t{1} << 30) {
    absl::StatusOr<std::unique_ptr<Door>> made = Door::Listen(address);
    REQUIRE(made.ok());
    door = *std::move(made);
    door->Open({&echo, intake, request_max}, [this](int fd) {
      ++others;
      close(fd);
    });
  }
  // Connects like a foreign or broken peer.
  int Connect() const {
    NameLookup name(door->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 1000);
    REQUIRE(fd.ok());
    return *fd;
  }
  int Greeted() const {
    const int fd = Connect();
    REQUIRE(GreetStream(fd, 1000));
    return fd;
  }

  std::string path;
  Echo echo;
  std::shared_ptr<Intake> intake;
  std::atomic<int> others = 0;
  std::unique_ptr<Door> door;
  std::unique_ptr<Link> link;
};

inline std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

inline std::string Framed(const StreamFrame& frame) {
  const std::string bytes = frame.SerializeAsString();
  std::string framed(4, '\0');
  framed[0] = static_cast<char>(bytes.size());
  framed[1] = static_cast<char>(bytes.size() >> 8);
  return framed + bytes;
}

}  // namespace paracord
