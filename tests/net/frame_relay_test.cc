// Tests the relay in front of gRPC: it forwards bytes unchanged, and stops endless headers.
#include "net/frame_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/steady_ms.h"
#include "net/stream_pair.h"

namespace paracord {
namespace {

std::string Frame(unsigned char kind, unsigned char flags, size_t bytes) {
  std::string frame = {static_cast<char>(bytes >> 16), static_cast<char>(bytes >> 8),
                       static_cast<char>(bytes), static_cast<char>(kind), static_cast<char>(flags)};
  return frame + std::string("\0\0\0\1", 4) + std::string(bytes, 'x');
}

constexpr unsigned char kData = 0, kHeaders = 1, kReset = 3, kPing = 6, kContinuation = 9;
constexpr unsigned char kAck = 1, kEnd = 4;  // flags
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TEST_CASE("a header block that does not end is found, in pieces of any size") {
  const size_t piece = GENERATE(1u, 7u, 100000u);
  const auto take = [&](HeaderBlocks& blocks, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const std::string part = bytes.substr(at, piece);
      if (!blocks.Take(part)) return false;
    }
    return true;
  };
  HeaderBlocks sound;
  std::string calls = kPreface;
  for (int call = 0; call < 100; ++call) {
    calls += Frame(kHeaders, 0, 4000) + Frame(kContinuation, kEnd, 4000) + Frame(kData, 0, 70000);
  }
  CHECK(take(sound, calls));
  for (const size_t bytes : {0u, 16000u}) {  // empty frames cost memory, too
    HeaderBlocks endless;
    std::string flood = kPreface + Frame(kHeaders, 0, 10);
    for (int i = 0; i < 10000 && flood.size() < 100000; ++i)
      flood += Frame(kContinuation, 0, bytes);
    CHECK_FALSE(take(endless, flood));
  }
}

struct Ends {
  FrameRelay relay;
  int client = -1, server = -1;
  explicit Ends(FrameRelayOptions options = {}) : relay(std::move(options)) {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    client = pair[0];
    REQUIRE(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    relay.Add(pair[1], [this](int fd) { server = fd; });
    REQUIRE(server >= 0);
    REQUIRE(fcntl(server, F_SETFL, 0) == 0);
  }
  ~Ends() {
    close(client);
    close(server);
  }
};

void SendAll(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (put <= 0) return;
    at += static_cast<size_t>(put);
  }
}

std::string Receive(int fd, size_t bytes) {
  std::string all(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = recv(fd, all.data() + have, bytes - have, 0);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  all.resize(have);
  return all;
}

TEST_CASE("bytes of both ends come through the relay unchanged, and so does their end") {
  Ends ends;
  std::string up = kPreface, down, heard;
  for (int i = 0; i < 300; ++i) {
    up += Frame(kData, 0, 10000 + static_cast<size_t>(i));
    down += Frame(kHeaders, kEnd, 9000) + std::string(1, static_cast<char>(i));
  }
  std::thread client([&] { SendAll(ends.client, up); });
  std::thread server([&] { SendAll(ends.server, down); });
  std::thread reads([&] { heard = Receive(ends.client, down.size()); });
  CHECK(Receive(ends.server, up.size()) == up);
  for (std::thread* thread : {&client, &server, &reads}) thread->join();
  CHECK(heard == down);
  shutdown(ends.client, SHUT_WR);
  CHECK(Receive(ends.server, 1).empty());
  SendAll(ends.server, "last");
  shutdown(ends.server, SHUT_RDWR);
  CHECK(Receive(ends.client, 5) == "last");
}

TEST_CASE("frames that want an answer count in their own second alone") {
  constexpr uint64_t kMax = FrameRate::kAsksMax;
  FrameRate rate(kMax);
  CHECK(rate.Allow(kMax - 1, 50000));
  CHECK(rate.Allow(1, 50999));
  CHECK_FALSE(rate.Allow(1, 50999));
  CHECK(rate.Allow(kMax, 51000));  // a new second
  CHECK_FALSE(rate.Allow(1, 51001));
  CHECK_FALSE(rate.Allow(kMax + 1, 70000));  // even in a single burst
}

TEST_CASE("a client that floods with headers is cut, and one that does not read is held up") {
  Ends ends;
  SECTION("headers") {
    std::string flood = kPreface + Frame(kHeaders, 0, 1);
    for (int i = 0; i < 100; ++i) flood += Frame(kContinuation, 0, 16000);
    std::thread client([&] { SendAll(ends.client, flood); });
    CHECK(Receive(ends.server, flood.size()).size() < 300000);
    client.join();
    CHECK(Receive(ends.client, 1).empty());
  }
  SECTION("pings") {
    std::string flood = kPreface;
    for (uint64_t i = 0; i < 5 * FrameRate::kAsksMax; ++i) flood += Frame(kPing, 0, 8);
    std::thread client([&] { SendAll(ends.client, flood); });
    CHECK(Receive(ends.server, flood.size()).size() < flood.size() / 2);
    client.join();
    CHECK(Receive(ends.client, 1).empty());
  }
  SECTION("as many pings as a client that measures the network sends") {
    std::string some = kPreface;
    for (uint64_t i = 0; i < FrameRate::kAsksMax; ++i) some += Frame(kPing, 0, 8);
    // Acknowledgements ask for no answer, and do not count.
    for (uint64_t i = 0; i < FrameRate::kAsksMax; ++i) some += Frame(kPing, kAck, 8);
    std::thread client([&] { SendAll(ends.client, some); });
    CHECK(Receive(ends.server, some.size()).size() == some.size());
    client.join();
  }
  SECTION("does not read") {
    std::thread server([&] { SendAll(ends.server, std::string(4 << 20, 'a')); });
    pollfd first{ends.client, POLLIN, 0};
    CHECK(poll(&first, 1, 10000) == 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the relay's patience is over
    std::thread client([&] { SendAll(ends.client, kPreface + Frame(kData, 0, 100)); });
    pollfd said{ends.server, POLLIN, 0};
    CHECK(poll(&said, 1, 200) == 0);
    CHECK(Receive(ends.client, 4 << 20).size() == 4 << 20);
    CHECK(Receive(ends.server, 100).size() == 100);
    server.join();
    client.join();
  }
}

TEST_CASE("a client waits while the request budget has no room for its requests") {
  const auto request_budget = std::make_shared<RequestBudget>(1000);
  const uint64_t older = request_budget->Begin();
  REQUIRE(request_budget->Take(older, 2000, nullptr));
  Ends ends({.request_budget = request_budget});
  std::string up = kPreface + Frame(kHeaders, kEnd, 10);
  for (int i = 0; i < 20; ++i) up += Frame(kData, 0, 100000);
  std::thread client([&] { SendAll(ends.client, up); });
  std::atomic<size_t> have = 0;
  std::thread server([&] {
    while (have < up.size()) {
      const size_t got = Receive(ends.server, 1).size();
      if (got == 0) break;
      have += got;
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(have < up.size() / 2);
  CHECK(Soon([&] { return request_budget->bytes() > 2000; }));
  request_budget->End(older);
  client.join();
  server.join();
  CHECK(have == up.size());
  CHECK(request_budget->bytes() == 20 * 100000 + 10 + ArrivingRequests::kCallBytes);
  shutdown(ends.client, SHUT_RDWR);
  shutdown(ends.server, SHUT_RDWR);
  CHECK(Soon([&] { return request_budget->bytes() == 0; }));
}

TEST_CASE("a client that resets requests without end is cut") {
  Ends ends;
  const std::string one = Frame(kHeaders, kEnd, 10) + Frame(kReset, 0, 4);
  std::string flood = kPreface;
  for (uint64_t i = 0; i < 5 * FrameRate::kResetsMax; ++i) flood += one;
  std::thread client([&] { SendAll(ends.client, flood); });
  CHECK(Receive(ends.server, flood.size()).size() < flood.size() / 2);
  client.join();
  CHECK(Receive(ends.client, 1).empty());
}

TEST_CASE("a certificate whose connections reset requests again and again is refused for a while") {
  Offenders offenders;
  offenders.Cut("", 1000);
  CHECK_FALSE(offenders.Refused("", 1000));
  offenders.Cut("spiffe://lab/monitor/0, serial 1", 1000);
  CHECK_FALSE(offenders.Refused("spiffe://lab/monitor/0, serial 1", 1000));  // once is no habit
  offenders.Cut("spiffe://lab/monitor/0, serial 1", 2000);
  CHECK(offenders.Refused("spiffe://lab/monitor/0, serial 1", 2000 + Offenders::kWhileMs));
  CHECK_FALSE(offenders.Refused("spiffe://lab/monitor/0, serial 1", 2001 + Offenders::kWhileMs));
  CHECK_FALSE(offenders.Refused("spiffe://lab/worker/0, serial 2", 2000));
}

TEST_CASE("what a certificate's connections do is bounded in their sum") {
  const std::string monitor = "spiffe://lab/monitor, serial 1", worker = "spiffe://lab/worker/0";
  Offenders offenders;
  CHECK(offenders.Allow(monitor, Offenders::kResetsMax, 0, 1000));
  CHECK_FALSE(offenders.Allow(monitor, 1, 0, 1999));
  CHECK(offenders.Allow(monitor, 1, 0, 2000));  // a new second
  CHECK(offenders.Allow(worker, 1, 0, 1999));
  CHECK(offenders.Allow(monitor, 0, Offenders::kLooksMax, 2000));
  CHECK_FALSE(offenders.Allow(monitor, 0, 1, 2001));
  // Many clients have no name.
  CHECK(offenders.Allow("", uint64_t{1} << 40, uint64_t{1} << 40, 2001));
}

TEST_CASE("the metrics tell apart 64 certificates that were refused, and count the others") {
  RefusedPeers refused;
  uint64_t all = 0;
  for (int i = 0; i < 100; ++i) {
    refused.Note({.cause = RefusedPeers::Cause::kResets,
                  .address = "10.0.0.9:4411",
                  .certificate = absl::StrCat("spiffe://lab/worker/", i),
                  .why = "it resets too many requests"});
  }
  CHECK(refused.counts().size() <= 65);
  CHECK(refused.counts().at({RefusedPeers::Cause::kResets, "spiffe://lab/worker/0"}) == 1);
  const auto counts = refused.counts();
  for (const auto& [who, count] : counts) all += count;
  CHECK(all == 100);
}

TEST_CASE("who was cut, and why, is counted and told") {
  const auto refused = std::make_shared<RefusedPeers>();
  std::mutex mu;
  std::string told;
  refused->Tell([&](const std::string& sentence) {
    const std::lock_guard<std::mutex> lock(mu);
    told = sentence;
  });
  const auto heard = [&] {
    const std::lock_guard<std::mutex> lock(mu);
    return told;
  };
  Ends ends({.refused = refused});
  std::string flood = kPreface;
  for (uint64_t i = 0; i < 5 * FrameRate::kResetsMax; ++i) {
    flood += Frame(kHeaders, kEnd, 10) + Frame(kReset, 0, 4);
  }
  const int64_t begun_ms = SteadyMs();
  std::thread client([&] { SendAll(ends.client, flood); });
  CHECK(Soon([&] { return refused->counts()[{RefusedPeers::Cause::kResets, ""}] == 1; }));
  client.join();
  CHECK(Soon([&] { return !heard().empty(); }));
  const std::string first = heard();
  CHECK(first.starts_with("cuts "));
  CHECK(first.ends_with(": it begins or resets too many requests"));
  CHECK(refused->last() == first);
  refused->Note({.cause = RefusedPeers::Cause::kRight, .address = "10.0.0.9:4411", .why = "no"});
  CHECK(refused->counts()[{RefusedPeers::Cause::kRight, ""}] == 1);
  // Later lines within the second are not logged.
  CHECK((heard() == first || SteadyMs() - begun_ms >= 1000));
}

TEST_CASE("a request that is answered before it is complete is counted no more") {
  const auto request_budget = std::make_shared<RequestBudget>(1 << 20);
  Ends ends({.request_budget = request_budget});
  SendAll(ends.client, kPreface + Frame(kHeaders, kEnd, 10) + Frame(kData, 0, 5000));
  CHECK(Soon([&] { return request_budget->bytes() == 5010 + ArrivingRequests::kCallBytes; }));
  constexpr unsigned char kEndStream = 1;
  SendAll(ends.server, Frame(kHeaders, kEnd | kEndStream, 20));
  CHECK(Soon([&] { return request_budget->bytes() == 0; }));
}

TEST_CASE("the relay leaves descriptors for files") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::array<int, 2> pair{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
  rlimit few = before;  // some descriptors are left, but reserved for files
  few.rlim_cur = static_cast<rlim_t>(pair[1]) + 10;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  bool delivered = false;
  {
    FrameRelay relay;
    relay.Add(pair[0], [&](int fd) {
      delivered = true;
      close(fd);
    });
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(delivered);
  CHECK(ClosedByPeer(pair[1]));
  close(pair[1]);
}

TEST_CASE("handshakes that do not end lock nobody out of gRPC: the oldest gives way") {
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const TestProcess worker(ca, ca.Issue("URI:spiffe://lab/worker/3"));
  constexpr int kMax = 3;
  std::atomic<int> delivered = -1;
  FrameRelay relay({.credentials = ps.credentials, .handshakes_max = kMax});
  const auto deliver = [&](int fd) { delivered = fd; };
  const auto connect = [&] {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
    relay.Add(pair[0], deliver);
    return pair[1];
  };
  std::vector<int> silent;
  for (int i = 0; i < 2 * kMax; ++i) silent.push_back(connect());
  for (int i = 0; i < kMax; ++i) CHECK(ClosedByPeer(silent[static_cast<size_t>(i)]));
  const auto keys = worker.credentials->Current();
  auto tls = TlsChannel::Make(connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  CHECK((*tls)->HandshakeWithin(5000).ok());
  CHECK(Soon([&] { return delivered >= 0; }));
  char byte = 0;
  CHECK(recv(silent.back(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0);  // still open
  for (const int fd : silent) close(fd);
  close(delivered);
}

TEST_CASE("a monitor that asks without end is cut, and its certificate is named") {
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const auto refused = std::make_shared<RefusedPeers>();
  FrameRelay relay({.credentials = ps.credentials, .refused = refused});
  // Sends calls with the certificate of `name`. Returns whether the relay has cut the connection.
  const auto cut = [&](const std::string& name) {
    const TestProcess client(ca, ca.Issue("URI:spiffe://lab/" + name));
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
    const auto delivered = std::make_shared<std::atomic<int>>(-1);
    relay.Add(pair[0], [delivered](int fd) { *delivered = fd; });
    const auto keys = client.credentials->Current();
    auto tls = TlsChannel::Make(pair[1], keys->client.get(), TlsChannel::End::kClient);
    REQUIRE(tls.ok());
    REQUIRE((*tls)->HandshakeWithin(5000).ok());
    REQUIRE(Soon([&] { return *delivered >= 0; }));
    constexpr unsigned char kEndStream = 1;
    std::string flood = kPreface;
    for (uint64_t i = 0; i < 2 * Offenders::kLooksMax; ++i) {
      std::string call = Frame(kHeaders, kEnd | kEndStream, 10);
      const uint64_t stream = 2 * i + 1;
      for (size_t b = 0; b < 4; ++b) call[5 + b] = static_cast<char>(stream >> (24 - 8 * b));
      flood += call;
    }
    std::thread sends([&] {
      for (size_t done = 0; done < flood.size();) {
        iovec piece{flood.data() + done, flood.size() - done};
        const ssize_t put = (*tls)->Send({&piece, 1});
        if (put > 0) done += static_cast<size_t>(put);
        if (put < 0 && errno != EAGAIN) return;
      }
    });
    REQUIRE(fcntl(*delivered, F_SETFL, 0) == 0);
    const bool whole = Receive(*delivered, flood.size()).size() == flood.size();
    sends.join();
    close(*delivered);
    return !whole;
  };
  CHECK(cut("monitor"));
  CHECK(Soon([&] { return !refused->last().empty(); }));
  CHECK(refused->last().find("(spiffe://lab/monitor, serial ") != std::string::npos);
  const auto counts = refused->counts();
  REQUIRE(counts.size() == 1);
  CHECK(counts.begin()->first.second.starts_with("spiffe://lab/monitor, serial "));
  CHECK_FALSE(cut("worker/0"));  // a worker may ask as fast as it computes
}

// A relay of a ps with a token, and clients that have not shown the token yet.
struct TokenRelay {
  static constexpr int kStrangersMax = 3;
  const TestCa ca{"lab"};
  const TestProcess ps{ca, ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true};
  const TestProcess nobody{ca, PemPair(), /*token=*/true};
  std::atomic<int> delivered = -1;  // gRPC's end of the last connection
  FrameRelay relay{{.credentials = ps.credentials, .unauthenticated_max = kStrangersMax}};

  struct Client {
    std::unique_ptr<TlsChannel> tls;
    int server = -1;
    ~Client() { close(server); }
  };
  std::unique_ptr<Client> Connect() {
    std::array<int, 2> pair{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
    delivered = -1;
    relay.Add(pair[0], [this](int fd) { delivered = fd; });
    const auto keys = nobody.credentials->Current();
    auto tls = TlsChannel::Make(pair[1], keys->client.get(), TlsChannel::End::kClient);
    REQUIRE(tls.ok());
    REQUIRE((*tls)->HandshakeWithin(5000).ok());
    REQUIRE(Soon([&] { return delivered >= 0; }));
    REQUIRE(fcntl(delivered, F_SETFL, 0) == 0);
    return std::unique_ptr<Client>(new Client{*std::move(tls), delivered});
  }
  // As gRPC does once a call has shown the token.
  void Know(const Client& client) const {
    sockaddr_un at{};
    socklen_t size = sizeof(at);
    REQUIRE(getpeername(client.server, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    relay.peers()->Know(std::string(at.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1));
  }
};

TEST_CASE("clients that never show the token are few, get 5 s, and leave alone who has shown it") {
  TokenRelay at;
  const auto known = at.Connect();
  at.Know(*known);
  std::vector<std::unique_ptr<TokenRelay::Client>> strangers;
  for (int i = 0; i < 2 * TokenRelay::kStrangersMax; ++i) strangers.push_back(at.Connect());
  const auto there = [](const TokenRelay::Client& client) {
    char byte = 0;
    return recv(client.server, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
  };
  CHECK(Soon([&] { return !there(*strangers[TokenRelay::kStrangersMax - 1]); }));
  CHECK(there(*strangers[TokenRelay::kStrangersMax]));
  CHECK(there(*strangers.back()));
  std::this_thread::sleep_for(std::chrono::milliseconds(5000));
  CHECK(Soon([&] { return !there(*strangers.back()); }));
  CHECK(there(*known));
}

TEST_CASE("few bytes of a client reach gRPC before it has shown the token, and then all") {
  TokenRelay at;
  const auto client = at.Connect();
  std::string sent = kPreface;
  while (sent.size() < 600000) sent += Frame(kData, 0, 10000);
  std::thread sends([&] {
    for (size_t done = 0; done < sent.size();) {
      iovec piece{sent.data() + done, sent.size() - done};
      const ssize_t put = client->tls->Send({&piece, 1});
      if (put > 0) done += static_cast<size_t>(put);
      if (put < 0 && errno != EAGAIN) return;
      if (put < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::string got = Receive(client->server, FrameRelay::kUnauthenticatedBytesMax);
  pollfd more{client->server, POLLIN, 0};
  CHECK(poll(&more, 1, 300) == 0);
  at.Know(*client);
  got += Receive(client->server, sent.size() - got.size());
  sends.join();
  CHECK((got == sent));
}

}  // namespace
}  // namespace paracord
