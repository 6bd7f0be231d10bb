#include "e2e/proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>

namespace paracord::e2e {
namespace {

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool Readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

Proxy::Proxy(std::string listen, std::string target) : target_(std::move(target)) {
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(listen);
  REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(::listen(listener_, 64) == 0);
  thread_ = std::thread([this] { Run(); });
}

Proxy::~Proxy() {
  stopping_ = true;
  thread_.join();
  for (const Pair& pair : pairs_) {
    close(pair.client);
    close(pair.server);
  }
  close(listener_);
}

void Proxy::set_mode(Mode mode, pid_t pid) {
  pid_ = pid;
  mode_ = mode;
}

void Proxy::Run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    if (mode_ == Mode::kPass) {
      for (const Pair& pair : pairs_) {
        polled.push_back({pair.client, POLLIN, 0});
        polled.push_back({pair.server, POLLIN, 0});
      }
    }
    poll(polled.data(), polled.size(), 5);
    if (polled[0].revents != 0) Accept();
    for (size_t i = 0; i < pairs_.size();) {
      const bool meant = pid_ == 0 || pid_ == pairs_[i].pid;
      if (Move(pairs_[i], meant ? mode_.load() : Mode::kPass)) {
        ++i;
        continue;
      }
      close(pairs_[i].client);
      close(pairs_[i].server);
      pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void Proxy::Accept() {
  Pair pair;
  pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (pair.client < 0) return;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(pair.client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) pair.pid = peer.pid;
  pair.server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(target_);
  if (connect(pair.server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(pair.client);
    close(pair.server);
    return;
  }
  pairs_.push_back(pair);
}

// Returns false if the connection has ended.
bool Proxy::Move(Pair& pair, Mode mode) {
  switch (mode) {
    case Mode::kBlackHole:
      return true;
    case Mode::kReset:
      return false;
    case Mode::kDropReplies: {
      pair.tainted = true;
      std::array<char, 4096> lost{};
      while (Readable(pair.server)) {
        if (read(pair.server, lost.data(), lost.size()) <= 0) return false;
      }
      return !Readable(pair.client) || Relay(pair.client, pair.server);
    }
    case Mode::kPass:
      if (pair.tainted) return false;
      return (!Readable(pair.client) || Relay(pair.client, pair.server)) &&
             (!Readable(pair.server) || Relay(pair.server, pair.client));
  }
  return false;
}

bool Proxy::Relay(int from, int to) {
  std::array<char, 65536> bytes{};
  const ssize_t got = read(from, bytes.data(), bytes.size());
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t now =
        send(to, bytes.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += now;
  }
  return true;
}

}  // namespace paracord::e2e
