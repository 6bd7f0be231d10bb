#include "net/own_link.h"

#include <catch2/catch.hpp>
#include <future>
#include <optional>
#include <thread>

#include "common/thread_loop.h"
#include "net/echo.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using OwnReply = absl::StatusOr<absl::Cord>;

// Bytes with a cord that points to them, and a count of the cords still held.
struct HeldBytes {
  absl::Cord Cord() {
    ++held;
    return absl::MakeCordFromExternal(bytes, [this] { --held; });
  }
  const std::string bytes = std::string(100000, 'x');
  std::atomic<int> held = 0;
};

struct OwnPair {
  void Call(std::string_view method, Parts request, int64_t deadline_ms = 1000) {
    link->Call(method, std::move(request), deadline_ms, [this](OwnReply got) {
      ++answers;
      reply = std::move(got);
    });
    loop.RunPosted();
  }
  ManualLoop loop;
  ManualExecutor lane{loop, /*at_once=*/false};
  const std::shared_ptr<Echo> shared_echo = std::make_shared<Echo>();
  Echo& echo = *shared_echo;
  int answers = 0;  // like `reply`, outlives the link, which answers open calls at its end
  OwnReply reply = absl::UnknownError("none");
  std::unique_ptr<OwnLink> link = std::make_unique<OwnLink>(
      "unix:/own", shared_echo, loop, [this](std::string_view) -> Executor& { return lane; });
};

TEST_CASE("a call to the own process is served on the lane, and shares all bytes") {
  OwnPair pair;
  HeldBytes first, second;
  pair.Call("/Echo", Parts{first.Cord(), second.Cord()});
  CHECK(pair.echo.handled == 0);  // never on the caller's thread
  REQUIRE(pair.lane.RunOne());
  REQUIRE(pair.answers == 1);
  REQUIRE(pair.reply.ok());
  std::vector<const char*> chunks;
  for (const absl::string_view chunk : pair.reply->Chunks()) chunks.push_back(chunk.data());
  CHECK(chunks == std::vector<const char*>{first.bytes.data(), second.bytes.data()});
  CHECK(first.held == 1);
  pair.reply = absl::UnknownError("read");
  CHECK((first.held == 0 && second.held == 0));
}

TEST_CASE("a call to the own process hears the service's error with the address") {
  OwnPair pair;
  pair.Call("/Refuse", {});
  REQUIRE(pair.lane.RunOne());
  CHECK(absl::IsAborted(pair.reply.status()));
  CHECK(pair.reply.status().message() == "unix:/own: not this one");
}

TEST_CASE("a call to the own process ends at its deadline, and its service hears of that") {
  OwnPair pair;
  pair.Call("/Park", {}, 300);
  REQUIRE(pair.lane.RunOne());
  pair.loop.Advance(299);
  CHECK((pair.answers == 0 && pair.echo.cancelled == 0));
  pair.loop.Advance(2);
  CHECK(absl::IsDeadlineExceeded(pair.reply.status()));
  CHECK((pair.answers == 1 && pair.echo.cancelled == 1));
  pair.loop.Advance(10000);
  CHECK(pair.answers == 1);
}

TEST_CASE("a call to the own process whose deadline passes before it is served hears it once") {
  OwnPair pair;
  pair.Call("/Echo", {}, 300);
  pair.loop.Advance(301);
  CHECK(absl::IsDeadlineExceeded(pair.reply.status()));
  REQUIRE(pair.lane.RunOne());
  pair.loop.RunPosted();
  CHECK(pair.answers == 1);
}

TEST_CASE("calls that are open when the link to the own process ends are cancelled on both sides") {
  OwnPair pair;
  pair.Call("/Park", {}, 1000);
  REQUIRE(pair.lane.RunOne());
  pair.Call("/Echo", {}, 1000);  // not yet served
  pair.link.reset();
  CHECK(pair.answers == 2);
  CHECK(absl::IsCancelled(pair.reply.status()));
  CHECK(pair.echo.cancelled == 1);
  REQUIRE(pair.lane.RunOne());
  pair.loop.Advance(5000);
  CHECK(pair.answers == 2);
}

TEST_CASE("calls that wait on a lane reach their service though link and owner have gone") {
  ManualLoop loop;
  ManualExecutor lane(loop, /*at_once=*/false);
  auto echo = std::make_shared<Echo>();
  const std::weak_ptr<Echo> lives = echo;
  int answers = 0;
  {
    OwnLink link("own:1", std::move(echo), loop,
                 [&](std::string_view) -> Executor& { return lane; });
    link.Call("/Echo", {}, 1000, [&](const OwnReply&) { ++answers; });
  }
  CHECK(answers == 1);  // cancelled
  REQUIRE_FALSE(lives.expired());
  REQUIRE(lane.RunOne());
  CHECK(answers == 1);
  CHECK(lives.expired());
}

TEST_CASE("each call to the own process goes to the lane of its method") {
  ManualLoop loop;
  ManualExecutor longs(loop, /*at_once=*/false), shorts(loop, /*at_once=*/false);
  const auto echo = std::make_shared<Echo>();
  int answers = 0;  // outlives the link, which answers the parked call at its end
  OwnLink link("own:1", echo, loop, [&](std::string_view method) -> Executor& {
    return method == "/Park" ? longs : shorts;
  });
  const auto count = [&](const OwnReply&) { ++answers; };
  link.Call("/Park", {}, 1000, count);
  link.Call("/Echo", {}, 1000, count);
  REQUIRE(shorts.RunOne());
  CHECK((answers == 1 && echo->handled == 1));
  REQUIRE(longs.RunOne());
  CHECK(echo->handled == 2);
}

// Drops every call.
class DroppingService : public Service {
 public:
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall>) override {}
};

TEST_CASE("a call to the own process that its service drops is cancelled") {
  ManualLoop loop;
  ManualExecutor lane(loop);
  OwnReply reply = absl::UnknownError("none");
  OwnLink link("own:1", std::make_shared<DroppingService>(), loop,
               [&](std::string_view) -> Executor& { return lane; });
  link.Call("/Echo", {}, 1000, [&](OwnReply got) { reply = std::move(got); });
  CHECK(absl::IsCancelled(reply.status()));
}

TEST_CASE("calls to the own process come from many threads, and each is answered once") {
  ThreadLoop loop;
  std::thread looping([&] { loop.Run(); });
  const auto echo = std::make_shared<Echo>();
  std::atomic<int> good = 0, bad = 0;
  constexpr int kThreads = 4, kCalls = 500;
  {
    ThreadExecutor lane(loop);
    OwnLink link("own:1", echo, loop, [&](std::string_view) -> Executor& { return lane; });
    std::vector<std::thread> callers;
    for (int t = 0; t < kThreads; ++t) {
      callers.emplace_back([&] {
        for (int i = 0; i < kCalls; ++i) {
          std::promise<OwnReply> answer;
          const std::string text = std::to_string(i);
          link.Call("/Echo", Parts{absl::Cord(text)}, 60000,
                    [&](OwnReply got) { answer.set_value(std::move(got)); });
          const OwnReply reply = answer.get_future().get();
          ++(reply.ok() && *reply == text ? good : bad);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  loop.Stop();
  looping.join();
  CHECK((good == kThreads * kCalls && bad == 0));
}

}  // namespace
}  // namespace paracord
