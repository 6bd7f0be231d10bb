#include "net/listener_check.h"

#include <catch2/catch.hpp>

#include "common/thread_loop.h"
#include "net/grpc/network.h"
#include "net/health.h"

namespace paracord {
namespace {

class NoMethods : public Service {
 public:
  explicit NoMethods(std::function<void()> called) : called_(std::move(called)) {}
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(absl::UnimplementedError("no such method"));
    called_();
  }

 private:
  const std::function<void()> called_;
};

TEST_CASE("a listener that answers is left alone, one that does not is called deaf") {
  ThreadLoop loop;
  GrpcNetwork network;
  int calls = 0;
  std::unique_ptr<Listener> listener;
  // After five answers the listener is destroyed, and its address no longer answers.
  NoMethods service([&] {
    loop.Post([&] {
      if (++calls == 5) listener.reset();
    });
  });
  auto listening = network.Listen("127.0.0.1:0", service);
  REQUIRE(listening.ok());
  listener = *std::move(listening);
  bool deaf = false;
  const ListenerCheck check(network, loop, listener->address(),
                            [&] {
                              deaf = true;
                              loop.Stop();
                            },
                            {.period_ms = 1, .deadline_ms = 1000, .failures = 2});
  loop.Run();
  listener.reset();  // before its service, if it is still there
  CHECK(deaf);
  CHECK(calls == 5);
}

// Refuses calls as a coordinator does while it waits for its storage.
class Waiting : public Service {
 public:
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(absl::UnavailableError("waits for the storage"));
  }
};

TEST_CASE("a daemon that refuses all calls but those for its health is not deaf") {
  ThreadLoop loop;
  GrpcNetwork network;
  Waiting inner;
  int asked = 0;
  HealthService service(
      "coordinator", loop,
      [&] {
        if (++asked == 5) loop.Stop();
        return HealthState{false, "waits for the storage"};
      },
      &inner);
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  bool deaf = false;
  const ListenerCheck check(network, loop, (*listener)->address(),
                            [&] {
                              deaf = true;
                              loop.Stop();
                            },
                            {.period_ms = 1, .deadline_ms = 1000, .failures = 2});
  loop.Run();
  CHECK_FALSE(deaf);
}

}  // namespace
}  // namespace paracord
