// Compressed gRPC messages: small ones that would become large in memory. gRPC ends the call, but
// may still deliver the compressed bytes, as garbage.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>

#include "net/grpc/network.h"

namespace paracord {
namespace {

constexpr size_t kBytes = 1 << 20;

grpc::ByteBuffer Zeros() {
  const grpc::Slice slice(std::string(kBytes, '\0'));
  return {&slice, 1};
}

class Largest : public Service {
 public:
  void Handle(std::string_view, absl::Cord request, std::shared_ptr<ServerCall> call) override {
    bytes = std::max(bytes.load(), request.size());
    call->Reply(Parts{std::move(request)});
  }
  std::atomic<size_t> bytes{0};
};

TEST_CASE("a compressed request is refused and never decompressed; without that it is answered") {
  GrpcNetwork network;
  Largest service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  grpc::GenericStub stub(
      grpc::CreateChannel((*listener)->address(), grpc::InsecureChannelCredentials()));
  const auto call = [&](grpc_compression_algorithm algorithm) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const grpc::ByteBuffer request = Zeros();
    grpc::CompletionQueue queue;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto rpc = stub.PrepareUnaryCall(&context, "/t/echo", request, &queue);
    rpc->StartCall();
    rpc->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    return status.error_code();
  };
  CHECK(call(GRPC_COMPRESS_GZIP) == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(call(GRPC_COMPRESS_DEFLATE) == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(service.bytes < kBytes / 100);
  CHECK(call(GRPC_COMPRESS_NONE) == grpc::StatusCode::OK);
  CHECK(service.bytes == kBytes);
}

// A server other than ours that compresses, whether or not its caller accepts compression.
class Compresses : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Reactor : public grpc::ServerGenericBidiReactor {
     public:
      Reactor() : reply_(Zeros()) { StartWriteAndFinish(&reply_, {}, grpc::Status::OK); }
      void OnDone() override { delete this; }

     private:
      grpc::ByteBuffer reply_;
    };
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    return new Reactor;
  }
};

TEST_CASE("a compressed reply is never decompressed") {
  Compresses service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  GrpcNetwork network;
  std::promise<absl::StatusOr<absl::Cord>> reply;
  const auto link = network.Dial("127.0.0.1:" + std::to_string(port));
  link->Call("/t/any", {}, 5000,
             [&](absl::StatusOr<absl::Cord> got) { reply.set_value(std::move(got)); });
  const absl::StatusOr<absl::Cord> got = reply.get_future().get();
  CHECK((!got.ok() || got->size() < kBytes / 100));
}

}  // namespace
}  // namespace paracord
