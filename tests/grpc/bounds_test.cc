// Limits of one gRPC connection, with a client other than ours.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "net/echo.h"
#include "net/grpc/network.h"

namespace paracord {
namespace {

TEST_CASE("a message of gRPC above 2 MiB is refused, and one of 2 MiB is answered") {
  GrpcNetwork network;
  Echo echo;
  const auto listener = network.Listen("127.0.0.1:0", echo);
  REQUIRE(listener.ok());
  grpc::GenericStub stub(
      grpc::CreateChannel((*listener)->address(), grpc::InsecureChannelCredentials()));
  const auto call = [&](size_t bytes) {
    grpc::ClientContext context;
    const grpc::Slice slice(std::string(bytes, 'x'));
    const grpc::ByteBuffer request(&slice, 1);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto rpc = stub.PrepareUnaryCall(&context, "/Echo", request, &queue);
    rpc->StartCall();
    rpc->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    return status.ok() ? reply.Length() : size_t{0};
  };
  CHECK(call(2 << 20) == 2 << 20);
  CHECK(call((2 << 20) + 1) == 0);
}

// Keeps calls until the test answers them.
class Keeping : public Service {
 public:
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    MutexLock lock(mu_);
    calls_.push_back(std::move(call));
  }
  size_t calls() const {
    MutexLock lock(mu_);
    return calls_.size();
  }
  void Answer(size_t call) const {
    MutexLock lock(mu_);
    calls_[call]->Reply(Parts{});
  }

 private:
  mutable Mutex mu_;
  std::vector<std::shared_ptr<ServerCall>> calls_;
};

TEST_CASE("a connection of gRPC has eight calls open at once, and the ninth waits for its turn") {
  constexpr size_t kAtOnce = 8;
  GrpcNetwork network;
  Keeping service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = network.Dial((*listener)->address());
  // The client learns the limit with its first answer.
  auto first = AskLater(*link, "/first", {}, 20000);
  REQUIRE(Soon([&] { return service.calls() == 1; }));
  service.Answer(0);
  REQUIRE(first.get().ok());
  std::vector<std::future<absl::StatusOr<absl::Cord>>> replies;
  for (size_t i = 0; i <= kAtOnce; ++i) replies.push_back(AskLater(*link, "/next", {}, 20000));
  REQUIRE(Soon([&] { return service.calls() == 1 + kAtOnce; }));
  CHECK(replies.back().wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  CHECK(service.calls() == 1 + kAtOnce);
  for (size_t call = 1; call <= 1 + kAtOnce; ++call) {
    REQUIRE(Soon([&] { return service.calls() > call; }));
    service.Answer(call);
  }
  for (auto& reply : replies) CHECK(reply.get().ok());
}

}  // namespace
}  // namespace paracord
