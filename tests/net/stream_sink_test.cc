// Tests replies whose bytes land in the caller's memory.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/stream_pair.h"

namespace paracord {
namespace {

// Receives every second run of 1,000 bytes in its own memory.
class Stripes : public ReplySink {
 public:
  explicit Stripes(size_t bytes) : memory(bytes) {}
  uint64_t bytes_max() const override { return 10000000; }
  Place Look(std::string_view bytes) override {
    Place next;
    const size_t until = 1000 - at % 1000;
    next.looked = std::min(until, bytes.size());
    at += next.looked;
    if (next.looked < until) return next;
    next.at = memory.data() + at;
    next.bytes = 1000;
    at += 1000;
    return next;
  }
  std::vector<char> memory;
  std::atomic<size_t> at = 0;  // position in the reply
};

TEST_CASE("a reply's bytes land where the caller wants them, and the reply points to them") {
  Pair pair;
  for (const size_t bytes : {size_t{0}, size_t{999}, size_t{1000}, size_t{1900}, size_t{3000000}}) {
    CAPTURE(bytes);
    const std::string text = Pattern(bytes);
    const auto stripes = std::make_shared<Stripes>(bytes + 2000);
    const absl::StatusOr<absl::Cord> reply =
        AskInto(*pair.link, "/Echo", OnePart(text), stripes).get();
    REQUIRE(reply.ok());
    CHECK((std::string(*reply) == text));
    const std::less_equal<const char*> before;
    const char* const begin = stripes->memory.data();
    size_t landed = 0;
    for (const absl::string_view chunk : reply->Chunks()) {
      if (before(begin, chunk.data()) && before(chunk.data(), begin + bytes))
        landed += chunk.size();
    }
    CHECK(landed == bytes / 2000 * 1000 + (bytes % 2000 > 1000 ? bytes % 2000 - 1000 : 0));
  }
}

// A server played by the test, and a call with a sink.
struct Played {
  explicit Played(int64_t deadline_ms) {
    const absl::StatusOr<ListeningSockets> listening = ListenAt("127.0.0.1:0");
    REQUIRE(listening.ok());
    listeners = listening->fds;
    link = MakeStreamLink(std::make_unique<RefusingLink>(listening->address));
    reply = AskInto(*link, "/Echo", {}, stripes, deadline_ms);
    REQUIRE(Soon([&] {
      if (fd < 0) fd = accept4(listeners[0], nullptr, nullptr, SOCK_NONBLOCK);
      return fd >= 0;
    }));
    REQUIRE(GreetStream(fd, 10000));
  }
  ~Played() {
    for (const int listener : listeners) close(listener);
    if (fd >= 0) close(fd);
  }
  void Send(const std::string& bytes) const {
    size_t sent = 0;
    CHECK(Soon([&] {
      const ssize_t put = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (put > 0) sent += static_cast<size_t>(put);
      return sent == bytes.size();
    }));
  }
  static std::string ReplyOf(uint64_t body_bytes) {
    StreamFrame frame;
    frame.set_kind(StreamFrame::REPLY);
    frame.set_call(1);
    frame.set_body_bytes(body_bytes);
    return Framed(frame);
  }
  bool Closed() const {
    return Soon([&] {
      std::array<char, 4096> rest{};
      return recv(fd, rest.data(), rest.size(), MSG_DONTWAIT) == 0;
    });
  }

  std::vector<int> listeners;
  int fd = -1;
  std::shared_ptr<Stripes> stripes = std::make_shared<Stripes>(4000000);
  std::unique_ptr<Link> link;
  std::future<absl::StatusOr<absl::Cord>> reply;
};

TEST_CASE("nothing is written to its place any more once a call has failed") {
  const bool deadline = GENERATE(true, false);
  CAPTURE(deadline);
  Played played(/*deadline_ms=*/deadline ? 1000 : 30000);
  played.Send(Played::ReplyOf(100000) + std::string(3500, 'x'));
  REQUIRE(Soon([&] { return played.stripes->at == 4000; }));
  if (!deadline) close(std::exchange(played.fd, -1));
  const absl::Status status = played.reply.get().status();
  CHECK(status.code() ==
        (deadline ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable));
  const std::vector<char> then = played.stripes->memory;
  CHECK(then[1999] == 'x');
  CHECK(then[3500] == 0);
  if (deadline) {
    // A reply that barely moves would block others, so the connection is closed.
    (void)!send(played.fd, then.data(), 10000, MSG_NOSIGNAL);
    CHECK(played.Closed());
  }
  CHECK((played.stripes->memory == then));
}

TEST_CASE("a reply that comes slowly has the time that it takes, one that drips has not") {
  const size_t step = GENERATE(size_t{300000}, size_t{2});
  CAPTURE(step);
  Played played(/*deadline_ms=*/1000);
  constexpr size_t kPieces = 10;  // which take longer than the deadline
  const std::string text = Pattern(kPieces * 300000);
  played.Send(Played::ReplyOf(text.size()));
  for (size_t at = 0; at < kPieces; ++at) {
    const std::string next = text.substr(at * step, step);
    if (step > 2) {
      played.Send(next);
    } else {
      (void)!send(played.fd, next.data(), next.size(), MSG_NOSIGNAL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  const absl::StatusOr<absl::Cord> reply = played.reply.get();
  if (step == 2) {
    CHECK(absl::IsDeadlineExceeded(reply.status()));
    CHECK(played.Closed());
  } else {
    REQUIRE(reply.ok());
    CHECK((std::string(*reply) == text));
  }
}

TEST_CASE("a reply larger than can be meant, or with an error and a body, breaks the connection") {
  const bool large = GENERATE(true, false);
  CAPTURE(large);
  Played played(/*deadline_ms=*/30000);
  StreamFrame frame;
  frame.set_kind(StreamFrame::REPLY);
  frame.set_call(1);
  frame.set_body_bytes(large ? 10000001 : 1);
  if (!large) frame.set_code(14);
  played.Send(Framed(frame));
  CHECK(absl::IsUnavailable(played.reply.get().status()));
  CHECK(played.Closed());
}

TEST_CASE("a deadline is kept while the peer has no end of other things to say") {
  Played played(/*deadline_ms=*/1000);
  StreamFrame frame;
  frame.set_kind(StreamFrame::REPLY);
  frame.set_call(99);
  frame.set_body_bytes(100000);
  const std::string noise = Framed(frame) + std::string(100000, 'x');
  std::atomic<bool> over = false;
  std::thread speaker([&] {
    size_t at = 0;
    while (!over) {
      const ssize_t put = send(played.fd, noise.data() + at, noise.size() - at, MSG_NOSIGNAL);
      if (put > 0) at = (at + static_cast<size_t>(put)) % noise.size();
    }
  });
  CHECK(absl::IsDeadlineExceeded(played.reply.get().status()));
  over = true;
  played.link.reset();
  shutdown(played.fd, SHUT_RDWR);
  speaker.join();
}

}  // namespace
}  // namespace paracord
