// gRPC callers that give up while their requests wait for room.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "net/grpc/network.h"

namespace paracord {
namespace {

struct Answers : Service {
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(Parts{absl::Cord("done")});
  }
};

// Needs the time that the test below gives each request between its going on and its next read.
TEST_CASE("gone callers, in a process of their own", "[.gone_callers]") {
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
}

TEST_CASE("a request that may be read on when its caller is gone is not read from any more") {
  const pid_t child = fork();
  if (child == 0) {
    setenv("PARACORD_FAILPOINTS", "grpc.resume=stall:5", 1);
    std::string self = "/proc/self/exe", which = "[.gone_callers]";
    const std::array<char*, 3> argv = {self.data(), which.data(), nullptr};
    execv(argv[0], argv.data());
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace paracord
