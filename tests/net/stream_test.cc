// Tests streams between two ends in one process, over real sockets.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/limit_error.h"
#include "common/steady_ms.h"
#include "net/receive_buffers.h"
#include "net/stream_pair.h"

namespace paracord {
namespace {

TEST_CASE("a stream brings messages of every size as they were sent") {
  Pair pair;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{4096}, size_t{65536}, size_t{500000}, kReceiveBufferBytes - 1,
        kReceiveBufferBytes, kReceiveBufferBytes + 1, size_t{20000000}}) {
    CAPTURE(bytes);
    const std::string text = Pattern(bytes);
    Parts parts;
    for (size_t at = 0; at < bytes; at += 700000) parts.emplace_back(text.substr(at, 700000));
    const absl::StatusOr<absl::Cord> reply = Ask(*pair.link, "/Echo", std::move(parts));
    REQUIRE(reply.ok());
    CHECK((std::string(*reply) == text));
  }
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
  CHECK(pair.others == 0);
}

TEST_CASE("a status crosses a stream with its code and names the peer") {
  Pair pair;
  const absl::Status status = Ask(*pair.link, "/Refuse", {}).status();
  CHECK(absl::IsAborted(status));
  CHECK(std::string(status.message()) == pair.multiplexer->address() + ": not this one");
}

TEST_CASE("many large messages in both directions of a stream do not block each other") {
  Pair pair(/*in_flight=*/4 << 20);  // less than a single message
  const std::string text = Pattern(5000000);
  std::vector<std::future<absl::StatusOr<absl::Cord>>> replies;
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 3; ++i) {
    links.push_back(pair.Dial());
    for (int call = 0; call < 4; ++call) {
      replies.push_back(AskLater(*links.back(), "/Echo", OnePart(text), 30000));
    }
  }
  for (auto& reply : replies) {
    const absl::StatusOr<absl::Cord> got = reply.get();
    REQUIRE(got.ok());
    CHECK((std::string(*got) == text));
  }
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
}

TEST_CASE("a request beyond the limit is refused and the stream lives on") {
  Pair pair(uint64_t{1} << 30, /*request_max=*/1000000);
  CHECK(IsLimit(Ask(*pair.link, "/Echo", OnePart(Pattern(3000000))).status()));
  CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
  CHECK(pair.echo.handled == 1);
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
}

TEST_CASE("a request whose answer waits without it is held by nobody") {
  Pair pair;
  auto waits = AskLater(*pair.link, "/Wait", OnePart(Pattern(3000000)), 4000);
  REQUIRE(Soon([&] { return pair.echo.handled == 1; }));
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
  CHECK(waits.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  CHECK(absl::IsDeadlineExceeded(waits.get().status()));
  CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
}

TEST_CASE("a call over a stream ends at its deadline, and its service hears of it") {
  Pair pair;
  REQUIRE(Ask(*pair.link, "/Echo", {}).ok());
  const absl::Status status = Ask(*pair.link, "/Park", {}, 200).status();
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(std::string(status.message()) == pair.multiplexer->address() + ": no answer within 200 ms");
  CHECK(Soon([&] { return pair.echo.cancelled == 1; }));
  CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
}

TEST_CASE("the end of a stream's link cancels its calls on both sides") {
  Pair pair;
  auto parked = AskLater(*pair.link, "/Park", {}, 60000);
  REQUIRE(Soon([&] { return pair.echo.handled == 1; }));
  pair.link.reset();
  CHECK(absl::IsCancelled(parked.get().status()));
  CHECK(Soon([&] { return pair.echo.cancelled == 1; }));
}

TEST_CASE("calls fail when the stream's listener goes, and a new one is found") {
  Pair pair;
  auto parked = AskLater(*pair.link, "/Park", {}, 60000);
  REQUIRE(Soon([&] { return pair.echo.handled == 1; }));
  const std::string address = pair.multiplexer->address();
  pair.multiplexer = nullptr;
  CHECK(absl::IsUnavailable(parked.get().status()));
  // No listener exists, so the call uses the network beneath.
  CHECK(absl::IsUnimplemented(Ask(*pair.link, "/Echo", {}).status()));
  pair.Open(address);
  CHECK(Soon([&] { return Ask(*pair.link, "/Echo", {}).ok(); }));
}

TEST_CASE("a peer that does not greet is called by the link beneath") {
  Pair pair;
  const std::string answer = GENERATE("", "\x00\x00\x06\x04\x00\x00\x00\x00\x00", "paracord/2\n");
  CAPTURE(answer);
  const absl::StatusOr<ListeningSockets> plain = ListenAt("127.0.0.1:0");
  REQUIRE(plain.ok());
  std::thread peer([&] {
    const int fd = [&] {
      int got = -1;
      while (got < 0) got = accept(plain->fds[0], nullptr, nullptr);
      return got;
    }();
    if (!answer.empty()) (void)!write(fd, answer.data(), answer.size());
    close(fd);
  });
  const auto link = MakeStreamLink(std::make_unique<RefusingLink>(plain->address));
  CHECK(absl::IsUnimplemented(Ask(*link, "/Echo", Parts{absl::Cord("x")}).status()));
  CHECK(absl::IsUnimplemented(Ask(*link, "/Echo", Parts{absl::Cord("x")}).status()));
  peer.join();
  for (const int fd : plain->fds) close(fd);
}

TEST_CASE("while the name of a stream's peer is looked up, calls keep their deadlines") {
  const auto silent = std::make_shared<std::promise<void>>();  // the name server
  const std::shared_future<void> answers = silent->get_future().share();
  const auto ask = [answers](const std::string&) -> absl::StatusOr<std::vector<SocketAddress>> {
    answers.wait();
    return absl::NotFoundError("");
  };
  const auto link = MakeStreamLink(std::make_unique<RefusingLink>("peer.invalid:1"),
                                   NameLookup("peer.invalid:1", ask));
  const int64_t begun_ms = SteadyMs();
  auto patient = AskLater(*link, "/Echo", {}, 60000);
  // The call uses the network beneath and keeps its deadline.
  CHECK(absl::IsUnimplemented(Ask(*link, "/Echo", {}, 500).status()));
  CHECK(SteadyMs() - begun_ms < 900);  // before the attempt to connect ends
  CHECK(absl::IsUnimplemented(patient.get().status()));
  CHECK(SteadyMs() - begun_ms < 10000);
  silent->set_value();
}

TEST_CASE("connections that speak something else are handed on, silent ones hold up nobody") {
  Pair pair(1 << 30, 1 << 30, {Over::kTcp, Over::kUnix});
  std::vector<int> fds;
  for (int i = 0; i < 20; ++i) fds.push_back(pair.Connect());
  const int other = pair.Connect();
  REQUIRE(write(other, "PRI * HTTP/2.0", 14) == 14);
  CHECK(Soon([&] { return pair.others == 1; }));
  CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
  for (const int fd : fds) close(fd);
  close(other);
}

TEST_CASE("a stream that breaks the rules is closed, and only that one") {
  Pair pair;
  StreamFrame reply = CallFrame(1, "", 0);
  reply.set_kind(StreamFrame::REPLY);
  StreamFrame none = CallFrame(1, "", 0);
  none.set_kind(StreamFrame::NONE);
  StreamFrame cancel = CallFrame(1, "", 9);
  cancel.set_kind(StreamFrame::CANCEL);
  const std::map<std::string, std::string> cases = {
      {"a frame of 4 GB", "\xff\xff\xff\xff"},
      {"no protobuf", std::string("\x04\x00\x00\x00\xff\xff\xff\xff", 8)},
      {"a reply to nothing", Framed(reply)},
      {"no kind", Framed(none)},
      {"a cancellation with a body", Framed(cancel)},
      {"a number twice", Framed(CallFrame(7, "/Park", 0)) + Framed(CallFrame(7, "/Park", 0))},
  };
  for (const auto& [name, bytes] : cases) {
    CAPTURE(name);
    const int fd = pair.Greeted();
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    CHECK(ClosedByPeer(fd));
    close(fd);
    CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
  }
  // Of two calls with one number, the first is cancelled.
  CHECK(Soon([&] { return pair.echo.cancelled == 1; }));
}

TEST_CASE("a wrong greeting ends a connection and is counted, and who leaves is not") {
  Pair pair(1 << 30, 1 << 30, {Over::kTcp, Over::kUnix});
  const int fd = pair.Connect();
  REQUIRE(write(fd, "paracord/9\n", 11) == 11);
  CHECK(ClosedByPeer(fd));
  close(fd);
  const int leaves = pair.Connect();
  REQUIRE(write(leaves, "par", 3) == 3);
  REQUIRE(shutdown(leaves, SHUT_WR) == 0);
  CHECK(ClosedByPeer(leaves));
  close(leaves);
  const RefusedPeers::Who stranger(RefusedPeers::Cause::kGreeting, "");
  CHECK(pair.refused->counts() == std::map<RefusedPeers::Who, uint64_t>{{stranger, 1}});
}

TEST_CASE("a stream with a wrong token is refused by name") {
  Pair pair(1 << 30, 1 << 30, {Over::kTls});
  const auto keys = pair.worker->credentials->Current();
  auto tls = TlsChannel::Make(pair.Connect(), keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  REQUIRE((*tls)->HandshakeWithin(5000).ok());
  CHECK_FALSE(GreetStream(**tls, 5000, nullptr, "not-the-secret-of-the-cluster"));
  const RefusedPeers::Who stranger(RefusedPeers::Cause::kGreeting, "");
  CHECK(pair.refused->counts() == std::map<RefusedPeers::Who, uint64_t>{{stranger, 1}});
  CHECK(pair.refused->last().ends_with("does not show its token (--token-file)"));
}

TEST_CASE("frames that come byte by byte, or stop in the middle, harm nobody") {
  Pair pair;
  const std::string bytes = Framed(CallFrame(3, "/Echo", 5)) + "hello";
  {
    const int fd = pair.Greeted();
    for (const char byte : bytes) REQUIRE(write(fd, &byte, 1) == 1);
    CHECK(Soon([&] { return pair.echo.handled == 1; }));
    std::string back;
    CHECK(Soon([&] {
      std::array<char, 4096> more{};
      const ssize_t got = recv(fd, more.data(), more.size(), MSG_DONTWAIT);
      if (got > 0) back.append(more.data(), static_cast<size_t>(got));
      return back.ends_with("hello");
    }));
    close(fd);
  }
  for (size_t end = 1; end < bytes.size(); ++end) {
    const int fd = pair.Greeted();
    REQUIRE(write(fd, bytes.data(), end) == static_cast<ssize_t>(end));
    close(fd);
  }
  {
    // A peer may announce more than it sends, so memory is allocated as bytes arrive.
    const int fd = pair.Greeted();
    const std::string large = Framed(CallFrame(4, "/Echo", uint64_t{1} << 30)) + "x";
    REQUIRE(write(fd, large.data(), large.size()) == static_cast<ssize_t>(large.size()));
    CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
    close(fd);
  }
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
  CHECK(pair.echo.handled == 2);
}

TEST_CASE("a peer that does not read its replies holds up nobody else") {
  Pair pair;
  const int fd = pair.Greeted();
  const std::string text = Pattern(3000000);
  // The request exceeds the sockets' buffers, so the rest is kept.
  std::thread writer([&] {
    const std::string request = Framed(CallFrame(1, "/Echo", text.size())) + text;
    size_t sent = 0;
    for (int i = 0; i < 30000 && sent < request.size(); ++i) {
      const ssize_t put = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (put > 0) sent += static_cast<size_t>(put);
      if (put < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(sent == request.size());
  });
  writer.join();
  CHECK(Soon([&] { return pair.echo.handled == 1; }));
  CHECK(Ask(*pair.link, "/Echo", OnePart(text)).ok());
  close(fd);
  CHECK(Soon([&] { return pair.request_budget->bytes() == 0; }));
}

TEST_CASE("a peer that sends and does not read is not served without end") {
  Pair pair;
  constexpr size_t kCalls = 400, kBytes = 64 << 10;
  const int fd = pair.Greeted();
  std::atomic<bool> sent = false;
  std::thread writer([&] {
    const std::string body = Pattern(kBytes);
    for (size_t call = 1; call <= kCalls; ++call) {
      const std::string request = Framed(CallFrame(call, "/Echo", kBytes)) + body;
      for (size_t done = 0; done < request.size();) {
        const ssize_t put = send(fd, request.data() + done, request.size() - done, MSG_NOSIGNAL);
        if (put > 0) done += static_cast<size_t>(put);
        if (put < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    sent = true;
  });
  int handled = -1;
  while (handled != pair.echo.handled) {
    handled = pair.echo.handled;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  CHECK(handled < static_cast<int>(kCalls));
  CHECK_FALSE(sent);
  CHECK(Ask(*pair.link, "/Echo", Parts{absl::Cord("x")}).ok());
  size_t received = 0;  // once the peer reads, it gets everything
  std::vector<char> memory(1 << 20);
  CHECK(Soon([&] {
    for (ssize_t got = 1; got > 0;) {
      got = recv(fd, memory.data(), memory.size(), MSG_DONTWAIT);
      if (got > 0) received += static_cast<size_t>(got);
    }
    return received > kCalls * kBytes;
  }));
  writer.join();
  close(fd);
}

TEST_CASE("a peer whose calls are refused, and which reads no reply, is not served without end") {
  // TCP would hold megabytes in flight.
  Pair pair(uint64_t{1} << 30, /*request_max=*/0, {Over::kUnix});
  std::string calls;
  for (uint64_t call = 1; call <= 50000; ++call) {
    calls += Framed(CallFrame(call, "/Echo", 1)) + "x";
  }
  const int fd = pair.Greeted();
  size_t sent = 0;
  for (int idle = 0; idle < 500 && sent < calls.size();) {
    const ssize_t put = send(fd, calls.data() + sent, calls.size() - sent, MSG_NOSIGNAL);
    if (put > 0) sent += static_cast<size_t>(put);
    idle = put > 0 ? 0 : idle + 1;
    if (put < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(sent < calls.size());
  std::vector<char> memory(1 << 20);  // once the peer reads, all its calls are answered
  CHECK(Soon([&] {
    for (ssize_t got = 1; got > 0;) got = recv(fd, memory.data(), memory.size(), MSG_DONTWAIT);
    const ssize_t put = send(fd, calls.data() + sent, calls.size() - sent, MSG_NOSIGNAL);
    if (put > 0) sent += static_cast<size_t>(put);
    return sent == calls.size();
  }));
  CHECK(IsLimit(Ask(*pair.link, "/Echo", OnePart("x")).status()));
  close(fd);
}

TEST_CASE(
    "a peer that falls silent inside a message counts as gone after a while, even behind a proxy") {
  // A peer that does not finish its request blocks the rest, since there is no room.
  Pair pair(/*in_flight=*/1 << 20, 1 << 30, {Over::kTcp, Over::kUnix});
  const int stalled = pair.Greeted();
  const std::string half = Framed(CallFrame(1, "/Echo", 10000000)) + Pattern(3000000);
  std::thread writer([&] {
    for (size_t done = 0; done < half.size();) {
      const ssize_t put = send(stalled, half.data() + done, half.size() - done, MSG_NOSIGNAL);
      if (put > 0) done += static_cast<size_t>(put);
      if (put < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  writer.join();
  REQUIRE(Soon([&] { return pair.request_budget->bytes() > 1 << 20; }));
  auto other = AskLater(*pair.link, "/Echo", OnePart(Pattern(3000000)), 60000);

  // A peer that acknowledges everything and answers nothing, like a proxy with a dead back end.
  const absl::StatusOr<ListeningSockets> dead = ListenAt("127.0.0.1:0");
  REQUIRE(dead.ok());
  const auto link = MakeStreamLink(std::make_unique<RefusingLink>(dead->address));
  auto unanswered = AskLater(*link, "/Echo", Parts{absl::Cord("x")}, 2000);
  int proxy = -1;
  REQUIRE(Soon([&] {
    if (proxy < 0) proxy = accept(dead->fds[0], nullptr, nullptr);
    return proxy >= 0;
  }));
  REQUIRE(GreetStream(proxy, 10000));
  CHECK(absl::IsDeadlineExceeded(unanswered.get().status()));
  absl::Status last;
  for (int i = 0; i < 60 && !absl::IsUnimplemented(last); ++i) {
    last = Ask(*link, "/Echo", Parts{absl::Cord("x")}, 500).status();
  }
  CHECK(absl::IsUnimplemented(last));  // refused by the link beneath
  CHECK(ClosedByPeer(proxy));
  close(proxy);
  for (const int fd : dead->fds) close(fd);

  CHECK(other.get().ok());
  CHECK(ClosedByPeer(stalled));
  close(stalled);
}

TEST_CASE("a file that is no socket is not taken for one that was left over") {
  const std::string path = absl::StrCat("/tmp/paracord-file-", getpid());
  std::ofstream(path) << "precious";
  const absl::Status status = PortMultiplexer::Listen("unix:" + path).status();
  INFO(status.ToString());
  CHECK(absl::IsInvalidArgument(status));
  std::string text;
  std::ifstream(path) >> text;
  CHECK(text == "precious");
  std::filesystem::remove(path);
  // A socket's file stays if another listener owns it.
  auto first = PortMultiplexer::Listen("unix:" + path);
  REQUIRE(first.ok());
  std::filesystem::remove(path);
  const auto second = PortMultiplexer::Listen("unix:" + path);
  REQUIRE(second.ok());
  first->reset();
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("receive buffers are used again") {
  char* const first = TakeReceiveBuffer();
  std::memset(first, 7, kReceiveBufferBytes);
  {
    const absl::Cord cord = CordOfReceiveBuffer(first, 10);
    const absl::Cord shared = cord;
    CHECK(std::string(shared) == std::string(10, 7));
  }
  char* const again = TakeReceiveBuffer();
  CHECK(again == first);
  GiveReceiveBuffer(again);
}

}  // namespace
}  // namespace paracord
