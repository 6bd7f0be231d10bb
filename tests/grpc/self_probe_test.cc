#include "net/self_probe.h"

#include <catch2/catch.hpp>

#include "common/thread_loop.h"
#include "net/grpc/network.h"

namespace paracord {
namespace {

class NoMethods : public Service {
 public:
  explicit NoMethods(std::function<void()> probed) : probed_(std::move(probed)) {}
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(absl::UnimplementedError("no such method"));
    probed_();
  }

 private:
  const std::function<void()> probed_;
};

TEST_CASE("a listener that answers is left alone, one that does not is called deaf") {
  ThreadLoop loop;
  GrpcNetwork network;
  int probes = 0;
  std::unique_ptr<Listener> listener;
  // After five answers the listener goes: from then on nobody answers at its address.
  NoMethods service([&] {
    loop.Post([&] {
      if (++probes == 5) listener.reset();
    });
  });
  auto listening = network.Listen("127.0.0.1:0", service);
  REQUIRE(listening.ok());
  listener = *std::move(listening);
  bool deaf = false;
  const SelfProbe probe(network, loop, listener->address(),
                        [&] {
                          deaf = true;
                          loop.Stop();
                        },
                        {.period_ms = 1, .deadline_ms = 200, .failures = 2});
  loop.Run();
  CHECK(deaf);
  CHECK(probes == 5);
}

}  // namespace
}  // namespace paracord
