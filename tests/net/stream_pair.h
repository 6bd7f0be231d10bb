// Both ends of a stream in one process: over TCP, a unix socket, and TLS.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"
#include "net/echo.h"
#include "net/port_multiplexer.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
#include "net/stream_greeting.h"
#include "net/stream_link.h"
#include "net/tls_channel.h"
#include "tests/certificates.h"

namespace paracord {

// Greets over a socket of the caller.
inline bool GreetStream(int fd, int64_t patience_ms) {
  return GreetStream(*MakePlainChannel(dup(fd)), patience_ms);
}

// The keys of a process, read from files.
struct TestProcess {
  TestProcess(const TestCa& ca, const PemPair& pair, bool token = false, NodeRights nodes = {})
      : keys(ca.pem(), pair) {
    keys.Write("token", "a-secret-of-the-cluster");
    SecurityOptions options = keys.options();
    options.nodes = nodes;
    if (token) options.token_file = keys.Path("token");
    if (pair.cert.empty()) options.cert = options.key = "";
    static PosixFiles files;  // used by the same threads as the clock
    auto loaded = Credentials::Load(options, files, [clock = clock] { return clock->load(); });
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    credentials = *std::move(loaded);
  }

  // Shared with threads of connections, which may outlive this object.
  const std::shared_ptr<std::atomic<int64_t>> clock =
      std::make_shared<std::atomic<int64_t>>(1'000'000);
  std::atomic<int64_t>& now_ms = *clock;  // moving the clock makes changed files reload
  TestKeys keys;
  std::shared_ptr<Credentials> credentials;
};

// Carries bytes between a plain socket and a channel, so that a test can write frames over TLS.
class Tunnel {
 public:
  explicit Tunnel(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    outer_ = pair[0];
    inner_ = pair[1];
    up_ = std::thread([this] { Up(); });
    down_ = std::thread([this] { Down(); });
  }
  ~Tunnel() {
    End();
    up_.join();
    down_.join();
    close(inner_);
  }
  int socket() const { return outer_; }  // the test closes it

 private:
  static void Await(int fd, short events) {
    pollfd ready{fd, events, 0};
    poll(&ready, 1, -1);
  }
  void End() const {
    shutdown(inner_, SHUT_RDWR);
    shutdown(channel_->fd(), SHUT_RDWR);
  }
  void Up() const {
    std::vector<char> bytes(1 << 16);
    while (true) {
      const ssize_t got = recv(inner_, bytes.data(), bytes.size(), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return End();
      if (got < 0) Await(inner_, POLLIN);
      for (ssize_t done = 0; done < got;) {
        iovec piece{bytes.data() + done, static_cast<size_t>(got - done)};
        const ssize_t put = channel_->Send({&piece, 1});
        if (put < 0 && errno != EAGAIN) return End();
        if (put < 0) Await(channel_->fd(), POLLOUT);
        if (put > 0) done += put;
      }
    }
  }
  void Down() const {
    std::vector<char> bytes(1 << 16);
    while (true) {
      iovec room{bytes.data(), bytes.size()};
      const ssize_t got = channel_->Receive({&room, 1});
      if (got == 0 || (got < 0 && errno != EAGAIN)) return End();
      if (got < 0) Await(channel_->fd(), POLLIN);
      for (ssize_t done = 0; done < got;) {
        const ssize_t put =
            send(inner_, bytes.data() + done, static_cast<size_t>(got - done), MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN) return End();
        if (put < 0) Await(inner_, POLLOUT);
        if (put > 0) done += put;
      }
    }
  }

  const std::unique_ptr<Channel> channel_;
  int outer_ = -1;
  int inner_ = -1;
  std::thread up_;
  std::thread down_;
};

enum class Over { kTcp, kUnix, kTls };
inline std::ostream& operator<<(std::ostream& to, Over over) {
  return to << (over == Over::kTcp ? "TCP" : over == Over::kUnix ? "a unix socket" : "TLS");
}

// A multiplexer with an echo service, and a link to the service. Over TLS, the client shows a
// token, which allows every call.
struct Pair {
  explicit Pair(uint64_t in_flight = uint64_t{1} << 30, uint64_t request_max = uint64_t{1} << 30,
                std::initializer_list<Over> ways = {Over::kTcp, Over::kUnix, Over::kTls})
      : request_budget(std::make_shared<RequestBudget>(in_flight)) {
    static std::atomic<int> number = 0;
    path = absl::StrCat("/tmp/paracord-stream-", getpid(), "-", ++number);
    const Over over = GENERATE_COPY(from_range(std::vector<Over>(ways)));
    CAPTURE(over);
    if (over == Over::kTls) {
      const TestCa ca("lab");
      ps.emplace(ca, ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
      worker.emplace(ca, PemPair(), /*token=*/true);
    }
    Open(over == Over::kUnix ? "unix:" + path : "127.0.0.1:0", request_max);
    link = Dial();
  }
  void Open(const std::string& address, uint64_t request_max = uint64_t{1} << 30) {
    absl::StatusOr<std::unique_ptr<PortMultiplexer>> made;
    REQUIRE(Soon([&] {  // another process may hold a given port for a while
      made = PortMultiplexer::Listen(address);
      return made.ok();
    }));
    multiplexer = *std::move(made);
    const auto other = [this](int fd) {
      ++others;
      close(fd);
    };
    multiplexer->Open({&echo, request_budget, request_max}, other, ps ? ps->credentials : nullptr,
                      refused);
  }
  std::unique_ptr<Link> Dial() const {
    return MakeStreamLink(std::make_unique<RefusingLink>(multiplexer->address()),
                          worker ? worker->credentials : nullptr);
  }
  // Connects like a foreign or broken peer.
  int Connect() const {
    NameLookup name(multiplexer->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    return *fd;
  }
  // Returns a greeted socket for frames. The test must close the socket.
  int Greeted() {
    if (!worker) {
      const int fd = Connect();
      REQUIRE(GreetStream(fd, 10000));
      return fd;
    }
    const auto keys = worker->credentials->Current();
    auto tls = TlsChannel::Make(Connect(), keys->client.get(), TlsChannel::End::kClient);
    REQUIRE(tls.ok());
    REQUIRE((*tls)->HandshakeWithin(5000).ok());
    REQUIRE(GreetStream(**tls, 5000, nullptr, keys->token));
    return tunnels.emplace_back(*std::move(tls)).socket();
  }

  std::string path;
  std::optional<TestProcess> ps;
  std::optional<TestProcess> worker;
  Echo echo;
  std::shared_ptr<RequestBudget> request_budget;
  std::atomic<int> others = 0;
  const std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>();
  std::unique_ptr<PortMultiplexer> multiplexer;
  std::unique_ptr<Link> link;
  std::list<Tunnel> tunnels;
};

// Asks over `link`. A link whose stream is late, as on a busy machine, uses the link beneath, which
// refuses the call; then counts it in `late` and asks once more, over a link of `dial`. Returns
// whether a call succeeded.
inline bool AskAgainIfLate(std::unique_ptr<Link>& link, std::string_view method,
                           const std::function<std::unique_ptr<Link>()>& dial, int& late) {
  constexpr int64_t kLateMs = 900;  // late streams are given up after 1000 ms, refused ones at once
  const int64_t begun_ms = SteadyMs();
  const absl::Status status = Ask(*link, method, OnePart("x")).status();
  if (!absl::IsUnimplemented(status) || SteadyMs() - begun_ms < kLateMs) return status.ok();
  ++late;
  link = dial();
  return Ask(*link, method, OnePart("x")).ok();
}

inline std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

inline StreamFrame CallFrame(uint64_t call, const std::string& method, uint64_t bytes) {
  StreamFrame frame;
  frame.set_kind(StreamFrame::CALL);
  frame.set_call(call);
  frame.set_method(method);
  frame.set_body_bytes(bytes);
  return frame;
}

inline std::string Framed(const StreamFrame& frame) {
  const std::string bytes = frame.SerializeAsString();
  std::string framed(4, '\0');
  framed[0] = static_cast<char>(bytes.size());
  framed[1] = static_cast<char>(bytes.size() >> 8);
  return framed + bytes;
}

// Returns whether the peer closes the connection.
inline bool ClosedByPeer(int fd) {
  std::array<char, 4096> ignored{};
  return Soon([&] {
    const ssize_t got = recv(fd, ignored.data(), ignored.size(), MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  });
}

}  // namespace paracord
