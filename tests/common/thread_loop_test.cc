#include "common/thread_loop.h"

#include <catch2/catch.hpp>
#include <memory>

namespace paracord {
namespace {

TEST_CASE("what a cancelled timer holds may use the loop when it is destroyed") {
  ThreadLoop loop;
  struct Posts {
    explicit Posts(ThreadLoop& l) : loop(l) {}
    ~Posts() {
      loop.Post([this_loop = &loop] { this_loop->Stop(); });
    }
    ThreadLoop& loop;
  };
  const EventLoop::TimerId timer =
      loop.PostAfter(1'000'000, [held = std::make_shared<Posts>(loop)] {});
  loop.Cancel(timer);
  loop.Run();  // until a posted function stops the loop
}

}  // namespace
}  // namespace paracord
