// gRPC callers that give up while their requests wait for memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "common/steady_ms.h"
#include "net/grpc/network.h"

namespace paracord {
namespace {

struct Answers : Service {
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(Parts{absl::Cord("done")});
  }
};

TEST_CASE("callers that are gone while their requests wait for room do no harm") {
  GrpcNetwork network({.requests_bytes_max = 1 << 20});
  Answers service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      const auto link = network.Dial((*listener)->address());
      for (int i = caller; std::chrono::steady_clock::now() < end; ++i) {
        std::promise<void> over;
        link->Call("/t/call", Parts(4, absl::Cord(std::string(300000, 'x'))), 1 + i * 7 % 40,
                   [&](const absl::StatusOr<absl::Cord>&) { over.set_value(); });
        over.get_future().wait();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const int64_t until_ms = SteadyMs() + 10000;
  while (network.request_budget()->bytes() > 0 && SteadyMs() < until_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(network.request_budget()->bytes() == 0);
}

}  // namespace
}  // namespace paracord
