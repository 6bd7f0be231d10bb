// A ps on a real network, and a client that stops reading its reply.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <future>

#include "net/grpc/network.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kRows = 64;  // rows of 1 MiB, more than socket buffers hold
constexpr uint64_t kReplyBytes = kRows << 20;

TestModel OneMatrix() {
  TestModel model;
  model.variables = {TestVariable("dense/kernel", {kRows, 1 << 18})};
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, kRows)};
  return model;
}

// Begins a pull and reads only the first message of the reply.
class StoppedClient {
 public:
  StoppedClient(const std::string& address, const std::string& request)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    call_ = stub_.PrepareCall(&context_, std::string(method::kExchange), &queue_);
    call_->StartCall(this);
    Await();
    const grpc::Slice slice(request);
    const grpc::ByteBuffer buffer(&slice, 1);
    call_->WriteLast(buffer, grpc::WriteOptions(), this);
    Await();
    call_->Read(&first_, this);
    Await();
  }
  ~StoppedClient() {
    context_.TryCancel();
    grpc::Status status;
    call_->Finish(&status, this);
    Await();
  }
  bool all_went_well() const { return ok_; }

 private:
  void Await() {
    void* tag = nullptr;
    bool ok = false;
    ok_ = queue_.Next(&tag, &ok) && ok && ok_;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer first_;
  bool ok_ = true;
};

TEST_CASE("others wait for a client that does not read, until it is gone, and lose nothing") {
  TestPs test(OneMatrix(), "", 0, kReplyBytes / 4);
  test.Ready();
  GrpcNetwork network;
  const auto listener = network.Listen("127.0.0.1:0", *test.ps);
  REQUIRE(listener.ok());
  const auto link = network.Dial((*listener)->address());
  const auto push = [&](uint32_t batch) {
    DecodedRequest request = test.PushOf(0, batch, 1.0f);
    const absl::Cord gradient = request.pieces[0].data;
    request.pieces.clear();
    for (uint64_t row = 0; row < kRows; ++row) {
      request.pieces.push_back({0, row << 20, gradient.Subcord(row << 20, 1 << 20)});
    }
    auto promise = std::make_shared<std::promise<absl::StatusOr<absl::Cord>>>();
    link->Call(
        method::kExchange, EncodeExchange(request.header, std::move(request.pieces)), 10000,
        [promise](absl::StatusOr<absl::Cord> reply) { promise->set_value(std::move(reply)); });
    return promise->get_future();
  };
  const auto applied = [](std::future<absl::StatusOr<absl::Cord>>& reply) {
    const absl::StatusOr<absl::Cord> bytes = reply.get();
    if (!bytes.ok()) return false;
    return DecodeExchangeReply(*bytes)->header.partitions(0).outcome() == PUSH_APPLIED;
  };

  DecodedRequest pull;
  *pull.header.mutable_fence() = test.MakeFence();
  test.AddPulls(pull);
  auto stopped =
      std::make_unique<StoppedClient>((*listener)->address(), pull.header.SerializeAsString());
  REQUIRE(stopped->all_went_well());
  auto first = push(0);
  CHECK(applied(first));
  CHECK(test.Describe().pinned_bytes() > kReplyBytes / 4);
  auto second = push(1);
  while (test.Describe().waiting_exchanges() == 0 &&
         second.wait_for(1ms) != std::future_status::ready) {
  }
  CHECK(test.Describe().waiting_exchanges() == 1);
  CHECK(test.Describe(true).partitions(0).updates() == 1);
  stopped.reset();
  while (second.wait_for(1ms) != std::future_status::ready) test.loop.RunPosted();
  CHECK(applied(second));
  CHECK(test.Describe(true).partitions(0).updates() == 2);
  // The rest of the reply is released when its call ends.
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (test.Describe().pinned_bytes() > 0 && std::chrono::steady_clock::now() < until) {
  }
  CHECK(test.Describe().pinned_bytes() == 0);
}

}  // namespace
}  // namespace paracord
