// gRPC's own client watches a daemon's health, as load-balancing clients do.
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "net/grpc/network.h"
#include "net/health.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("gRPC's client that checks health uses a daemon while that is ready, and only then") {
  ManualLoop loop;
  bool ready = false;
  HealthService health(
      "ps:3", loop,
      [&] {
        return HealthState{ready, ""};
      },
      nullptr);
  GrpcNetwork network;
  auto listener = network.Listen("127.0.0.1:0", health);
  REQUIRE(listener.ok());
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(R"({"loadBalancingConfig": [{"round_robin": {}}],
                                     "healthCheckConfig": {"serviceName": "readiness"}})");
  const auto channel = grpc::CreateCustomChannel((*listener)->address(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  // The client sees a state only while the loop runs. Polls for at most `rounds` of 20 ms.
  const auto becomes = [&](grpc_connectivity_state wanted, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      loop.Advance(1000);
      const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
      if (state == wanted) return true;
      channel->WaitForStateChange(state,
                                  std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    }
    return false;
  };
  CHECK(becomes(GRPC_CHANNEL_TRANSIENT_FAILURE, 500));
  CHECK_FALSE(becomes(GRPC_CHANNEL_READY, 5));
  ready = true;
  CHECK(becomes(GRPC_CHANNEL_READY, 500));
  ready = false;
  CHECK(becomes(GRPC_CHANNEL_TRANSIENT_FAILURE, 500));
  ready = true;
  CHECK(becomes(GRPC_CHANNEL_READY, 500));
  loop.RunPosted();
  *listener = nullptr;  // ends the watch, like a daemon that stops
  loop.RunPosted();
}

}  // namespace
}  // namespace paracord
