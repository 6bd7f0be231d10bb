// A gRPC client stops in the middle of its request while other requests wait for memory.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "net/grpc/network.h"

namespace paracord {
namespace {

using namespace std::chrono_literals;

struct Counted : Service {
  void Handle(std::string_view method, absl::Cord, std::shared_ptr<ServerCall> call) override {
    if (method == "/t/stops") ++stopped;
    call->Reply(Parts{absl::Cord("done")});
  }
  std::atomic<int> stopped = 0;
};

std::future<absl::Status> CallSlowly(Link& link, const std::string& method, Parts parts) {
  auto answered = std::make_shared<std::promise<absl::Status>>();
  link.Call(method, std::move(parts), 20000, [answered](const absl::StatusOr<absl::Cord>& reply) {
    answered->set_value(reply.status());
  });
  return answered->get_future();
}

TEST_CASE("a gRPC request that stops while others wait is given up, and no part of it is served") {
  GrpcNetwork network({.requests_bytes_max = 1 << 20, .request_patience_ms = 500});
  Counted service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const std::string address = (*listener)->address();
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  void* tag = nullptr;
  bool ok = false;
  const auto stops = stub.PrepareCall(&context, "/t/stops", &queue);
  stops->StartCall(&queue);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(std::string(300000, 'x'));
  stops->Write(grpc::ByteBuffer(&slice, 1), &queue);
  queue.Next(&tag, &ok);
  REQUIRE(ok);
  std::this_thread::sleep_for(200ms);  // until it has arrived and is the oldest

  const auto large_link = network.Dial(address), small_link = network.Dial(address);
  std::future<absl::Status> large =
      CallSlowly(*large_link, "/t/large", Parts(6, absl::Cord(std::string(500000, 'x'))));
  for (int i = 0; i < 100 && large.wait_for(100ms) != std::future_status::ready; ++i) {
    CHECK(CallSlowly(*small_link, "/t/small", {absl::Cord("s")}).get().ok());
  }
  CHECK(large.get().ok());
  grpc::Status status;
  stops->Finish(&status, &queue);
  queue.Next(&tag, &ok);
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(service.stopped == 0);
}

}  // namespace
}  // namespace paracord
