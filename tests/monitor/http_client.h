// A client that sends bytes of the test's choice, and reads until the server closes.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/steady_ms.h"

namespace paracord {

class RawHttpClient {
 public:
  // `address` is an IPv4 address with a port.
  explicit RawHttpClient(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
    ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~RawHttpClient() { ::close(fd_); }
  RawHttpClient(const RawHttpClient&) = delete;
  RawHttpClient& operator=(const RawHttpClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  bool Send(const std::string& bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Returns all bytes until the server closes, or until the time-out.
  std::string Read(int64_t wait_ms = 10000) const {
    std::string all;
    const int64_t until_ms = SteadyMs() + wait_ms;
    char room[4096];
    while (SteadyMs() < until_ms) {
      pollfd polled{fd_, POLLIN, 0};
      if (::poll(&polled, 1, 100) <= 0) continue;
      const ssize_t got = ::recv(fd_, room, sizeof room, 0);
      if (got <= 0) return all;
      all.append(room, static_cast<size_t>(got));
    }
    return all + "(the server has not closed)";
  }
  std::string Get(const std::string& path) const {
    Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return Read();
  }

 private:
  const int fd_;
  bool connected_ = false;
};

inline std::string Get(const std::string& address, const std::string& path) {
  return RawHttpClient(address).Get(path);
}
inline int CodeOf(const std::string& reply) {
  return reply.starts_with("HTTP/1.1 ") ? std::atoi(reply.c_str() + 9) : -1;
}

}  // namespace paracord
