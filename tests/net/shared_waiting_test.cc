// Both ends of a shared connection: with more to send than their socket holds, and when the serving
// side ends first.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "fakes.h"
#include "net/echo.h"
#include "net/shared_connection.h"
#include "net/shared_floats.h"

namespace paracord {
namespace {

constexpr uint64_t kRequestBytesMax = uint64_t{1} << 30;

// Returns small parts, which are sent over the socket.
Parts SmallParts(size_t count) {
  Parts parts;
  for (size_t i = 0; i < count; ++i) parts.emplace_back(std::string(4096, 'x'));
  return parts;
}

// A connection of this process with itself. Without `answers`, the other end never reads.
struct PipeEnds {
  explicit PipeEnds(bool answers) {
    REQUIRE(EnableSharedMemory());
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    caller =
        std::make_shared<SharedConnection>(ends[0], nullptr, nullptr, kRequestBytesMax, "test");
    calling = std::thread([this] { caller->Run(); });
    silent = answers ? -1 : ends[1];
    if (!answers) return;
    server = std::make_shared<SharedConnection>(
        ends[1], &echo, std::make_shared<RequestBudget>(256 << 20), kRequestBytesMax, "test");
    serving = std::thread([this] { server->Run(); });
  }
  ~PipeEnds() {
    caller->Close();
    if (silent >= 0) close(silent);
    calling.join();
    if (serving.joinable()) serving.join();
  }

  Echo echo;
  std::shared_ptr<SharedConnection> caller, server;
  std::thread calling, serving;
  int silent = -1;
};

TEST_CASE("neither end of a shared connection waits for the other to read") {
  constexpr int kCalls = 12;
  std::atomic<int> answered = 0, lost = 0;
  PipeEnds ends(/*answers=*/true);
  for (int i = 0; i < kCalls; ++i) {
    ends.caller->Call("/Echo", SmallParts(256), /*deadline_ms=*/60'000,
                      [&](const absl::StatusOr<absl::Cord>& reply) {
                        const bool whole = reply.ok() && reply->size() == 256 * 4096;
                        ++(whole ? answered : lost);
                      });
  }
  CHECK(Soon([&] { return answered + lost == kCalls; }));
  CHECK(answered == kCalls);
  CHECK(ends.caller->alive());
}

TEST_CASE("a caller does not wait for a peer that reads nothing, which is given up") {
  std::atomic<int> lost = 0;
  int calls = 0;
  bool returned = false;  // a call before its peer was given up; a busy machine may need several
  while (!returned && calls < 5) {
    PipeEnds ends(/*answers=*/false);
    const auto done = [&](const absl::StatusOr<absl::Cord>& reply) { lost += reply.ok() ? 0 : 1; };
    ends.caller->Call("/Echo", SmallParts(2000), /*deadline_ms=*/60'000, done);
    returned = ends.caller->alive();
    ++calls;
    CHECK(Soon([&] { return !ends.caller->alive(); }));
  }
  CHECK(returned);
  CHECK(lost == calls);
}

TEST_CASE("a serving side that ends reuses and releases nothing that is still read") {
  std::promise<absl::Cord> answer;
  std::promise<void> kept;
  PipeEnds ends(/*answers=*/true);
  auto offered = std::make_shared<SharedFloats>(100000, 2.0f);
  auto request = std::make_shared<SharedFloats>(100000, 3.0f);
  const std::weak_ptr<SharedFloats> ours = request, theirs = offered;
  ends.echo.Offer(CordOf(std::move(offered)));
  ends.caller->Call("/Offered", {}, /*deadline_ms=*/60'000,
                    [&](const absl::StatusOr<absl::Cord>& reply) { answer.set_value(*reply); });
  const absl::Cord reply = answer.get_future().get();
  ends.echo.Offer({});  // from here on only the reply holds the memory
  ends.caller->Call("/Keep", Parts{CordOf(std::move(request))}, /*deadline_ms=*/60'000,
                    [&](const absl::StatusOr<absl::Cord>&) { kept.set_value(); });
  kept.get_future().get();
  ends.server->Abort();
  ends.serving.join();    // although the service keeps the request
  ends.server = nullptr;  // as when its listener is destroyed: the request alone holds it now
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(ours.expired());
  CHECK((!theirs.expired() || !ends.caller->replies_valid()));
  ends.echo.Forget();
  CHECK(Soon([&] { return ours.expired() && theirs.expired(); }));
  CHECK_FALSE(ends.caller->replies_valid());
}

}  // namespace
}  // namespace paracord
