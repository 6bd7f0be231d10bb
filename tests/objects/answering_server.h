// An HTTP server on loopback with answers made by the test. One connection per request.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"

namespace paracord {

class AnsweringServer {
 public:
  // Called for each request with its head, from the request line to the empty line. Returns the
  // code and body of the answer. May be called on several threads at once.
  using AnswerFn = std::function<std::pair<int, std::string>(const std::string& head)>;

  explicit AnsweringServer(AnswerFn answer) : answer_(std::move(answer)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 64) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~AnsweringServer() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close(listener_);
    for (std::thread& each : serving_) each.join();
  }
  AnsweringServer(const AnsweringServer&) = delete;
  AnsweringServer& operator=(const AnsweringServer&) = delete;

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  // Returns the heads of all requests so far.
  std::vector<std::string> heads() {
    MutexLock lock(mu_);
    return heads_;
  }

 private:
  void Accept() {
    for (int fd = 0; (fd = accept(listener_, nullptr, nullptr)) >= 0;) {
      serving_.emplace_back([this, fd] { Serve(fd); });
    }
  }
  void Serve(int fd) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && read(fd, &byte, 1) == 1) head += byte;
    {
      MutexLock lock(mu_);
      heads_.push_back(head);
    }
    const auto [code, body] = answer_(head);
    const std::string text =
        absl::StrCat("HTTP/1.1 ", code, " x\r\nETag: \"tag\"\r\nContent-Length: ", body.size(),
                     "\r\nConnection: close\r\n\r\n", head.starts_with("HEAD") ? "" : body);
    for (size_t at = 0; at < text.size();) {
      const ssize_t sent = send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<size_t>(sent);
    }
    // Unread bytes of the request would turn the close into a reset.
    shutdown(fd, SHUT_WR);
    while (read(fd, &byte, 1) == 1) {
    }
    close(fd);
  }

  const AnswerFn answer_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
  Mutex mu_;
  std::vector<std::string> heads_ ABSL_GUARDED_BY(mu_);
  std::thread accepting_;
  std::vector<std::thread> serving_;  // used by the accepting thread until its end
};

}  // namespace paracord
