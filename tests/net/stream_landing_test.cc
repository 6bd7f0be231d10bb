// Replies of which bytes are received where the caller wants them.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/stream_pair.h"

namespace paracord {
namespace {

// Has every other 1,000 bytes of a reply received in its memory.
class Stripes : public Landing {
 public:
  explicit Stripes(size_t bytes) : memory(bytes) {}
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
  std::atomic<size_t> at = 0;  // of the reply
};

TEST_CASE("a reply's bytes land where the caller wants them, and the reply points to them") {
  Pair pair;
  for (const size_t bytes : {size_t{0}, size_t{999}, size_t{1000}, size_t{1900}, size_t{3000000}}) {
    CAPTURE(bytes);
    const std::string text = Pattern(bytes);
    const auto stripes = std::make_shared<Stripes>(bytes + 2000);
    const absl::StatusOr<absl::Cord> reply =
        AskInto(*pair.link, "/Echo", Parts{absl::Cord(text)}, stripes).get();
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

TEST_CASE("nothing is written to its place any more once a call has failed") {
  const bool deadline = GENERATE(true, false);
  CAPTURE(deadline);
  // A server that stops in the middle of a reply, and goes on or leaves.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&name), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size) == 0);
  const std::unique_ptr<Link> link = MakeStreamLink(
      std::make_unique<RefusingLink>(absl::StrCat("127.0.0.1:", ntohs(name.sin_port))));
  const auto stripes = std::make_shared<Stripes>(100000);
  auto reply = AskInto(*link, "/Echo", {}, stripes, /*deadline_ms=*/deadline ? 500 : 30000);
  const int fd = accept(listener, nullptr, nullptr);
  REQUIRE(fd >= 0);
  REQUIRE(GreetStream(fd, 1000));
  StreamFrame frame;
  frame.set_kind(StreamFrame::REPLY);
  frame.set_call(1);
  frame.set_body_bytes(100000);
  const std::string begin = Framed(frame) + std::string(3500, 'x');
  REQUIRE(write(fd, begin.data(), begin.size()) == static_cast<ssize_t>(begin.size()));
  REQUIRE(Soon([&] { return stripes->at == 4000; }));
  if (!deadline) close(fd);
  const absl::Status status = reply.get().status();
  CHECK(status.code() ==
        (deadline ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable));
  const std::vector<char> then = stripes->memory;
  CHECK(then[1999] == 'x');
  CHECK(then[3500] == 0);
  if (deadline) {
    // The rest of it is read, and a later call answered.
    const std::string rest(100000 - 3500, 'y');
    REQUIRE(write(fd, rest.data(), rest.size()) == static_cast<ssize_t>(rest.size()));
    auto next = AskLater(*link, "/Echo", {});
    frame.set_call(2);
    frame.set_body_bytes(1);
    const std::string second = Framed(frame) + "z";
    REQUIRE(write(fd, second.data(), second.size()) == static_cast<ssize_t>(second.size()));
    const absl::StatusOr<absl::Cord> got = next.get();
    REQUIRE(got.ok());
    CHECK(std::string(*got) == "z");
    close(fd);
  }
  CHECK((stripes->memory == then));
  close(listener);
}

}  // namespace
}  // namespace paracord
