// Tests what supervisors are told about a daemon, and when.
#include "net/health.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "net/rpc_proto.h"
#include "proto/grpc_health.pb.h"
#include "proto/health.pb.h"
#include "proto/protocol.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

class Inner : public Service {
 public:
  void Handle(std::string_view method, absl::Cord, std::shared_ptr<ServerCall> call) override {
    asked = std::string(method);
    call->Reply(Parts{absl::Cord("inner")});
  }
  std::string asked;
};

TEST_CASE("a daemon says how it is from its event loop alone, and hands other calls on") {
  ManualLoop loop;
  Inner inner;
  bool ready = false;
  HealthService health(
      "ps:3", loop,
      [&] {
        return HealthState{ready, "holds nothing yet"};
      },
      &inner);
  const auto call = std::make_shared<FakeCall>();
  health.Handle(kHealthMethod, absl::Cord(), call);
  CHECK(call->answered == 0);  // the loop does not run
  ready = true;
  loop.RunPosted();
  REQUIRE(call->answered == 1);
  const auto reply = ParseMessage<HealthReply>(*call->reply);
  CHECK(reply->task() == "ps:3");
  CHECK(reply->ready());
  CHECK(reply->state() == "holds nothing yet");
  CHECK(inner.asked.empty());

  const auto other = std::make_shared<FakeCall>();
  health.Handle(method::kDescribe, absl::Cord(), other);
  CHECK(inner.asked == method::kDescribe);
  CHECK(*other->reply == "inner");
}

TEST_CASE("gRPC's own health checks tell whether a daemon is ready, and whether it lives") {
  using Response = grpc::health::v1::HealthCheckResponse;
  ManualLoop loop;
  bool ready = false;
  HealthService health(
      "ps:3", loop,
      [&] {
        return HealthState{ready, ""};
      },
      nullptr);
  const auto ask = [&](const std::string& service) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    const auto call = std::make_shared<FakeCall>();
    health.Handle(kGrpcHealthMethod, absl::Cord(request.SerializeAsString()), call);
    CHECK(call->answered == 0);  // the loop does not run
    loop.RunPosted();
    REQUIRE(call->answered == 1);
    return call->reply;
  };
  for (const std::string service : {"", "readiness", "liveness"}) {
    ready = false;
    const auto status = service == "liveness" ? Response::SERVING : Response::NOT_SERVING;
    CHECK(ParseMessage<Response>(*ask(service))->status() == status);
    ready = true;
    CHECK(ParseMessage<Response>(*ask(service))->status() == Response::SERVING);
  }
  CHECK(absl::IsNotFound(ask("paracord.Nothing").status()));
}

using GrpcResponse = grpc::health::v1::HealthCheckResponse;

std::shared_ptr<FakeCall> WatchOf(HealthService& health, ManualLoop& loop,
                                  const std::string& service, bool streams = true) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto call = std::make_shared<FakeCall>();
  call->streams = streams;
  health.Handle(kGrpcHealthWatchMethod, absl::Cord(request.SerializeAsString()), call);
  loop.RunPosted();
  return call;
}

TEST_CASE("who watches a daemon by gRPC's health checks hears each change, once") {
  ManualLoop loop;
  bool ready = false;
  HealthService health(
      "ps:3", loop,
      [&] {
        return HealthState{ready, ""};
      },
      nullptr);
  const auto readiness = WatchOf(health, loop, "");
  const auto liveness = WatchOf(health, loop, "liveness");
  const auto unknown = WatchOf(health, loop, "paracord.Nothing");
  const auto last = [](const FakeCall& call) {
    return ParseMessage<GrpcResponse>(call.sent.back())->status();
  };
  REQUIRE(readiness->sent.size() == 1);
  CHECK(last(*readiness) == GrpcResponse::NOT_SERVING);
  CHECK(last(*liveness) == GrpcResponse::SERVING);
  CHECK(last(*unknown) == GrpcResponse::SERVICE_UNKNOWN);
  loop.Advance(5000);
  CHECK(readiness->sent.size() == 1);
  ready = true;
  loop.Advance(1000);
  REQUIRE(readiness->sent.size() == 2);
  CHECK(last(*readiness) == GrpcResponse::SERVING);
  CHECK(liveness->sent.size() == 1);

  readiness->Cancel();
  loop.RunPosted();
  CHECK(readiness.use_count() == 1);  // the watcher that left is forgotten
  ready = false;
  loop.Advance(1000);
  CHECK(readiness->sent.size() == 2);
  CHECK(liveness->answered == 0);
}

TEST_CASE("only so many may watch a daemon, and only where answers may be many") {
  ManualLoop loop;
  HealthService health(
      "ps:3", loop, [] { return HealthState{}; }, nullptr);
  CHECK(absl::IsUnimplemented(WatchOf(health, loop, "", /*streams=*/false)->reply.status()));
  std::vector<std::shared_ptr<FakeCall>> watchers;
  for (size_t i = 0; i < kHealthWatchersMax; ++i) watchers.push_back(WatchOf(health, loop, ""));
  CHECK(watchers.back()->answered == 0);
  CHECK(absl::IsResourceExhausted(WatchOf(health, loop, "")->reply.status()));
  watchers.front()->Cancel();
  loop.RunPosted();
  CHECK(WatchOf(health, loop, "")->sent.size() == 1);
}

TEST_CASE("a daemon without other calls refuses them, and one that ends drops a question") {
  ManualLoop loop;
  const auto pending = std::make_shared<FakeCall>(), other = std::make_shared<FakeCall>();
  {
    HealthService health(
        "worker:0", loop, [] { return HealthState{}; }, nullptr);
    health.Handle(method::kDescribe, absl::Cord(), other);
    CHECK(absl::IsUnimplemented(other->reply.status()));
    health.Handle(kHealthMethod, absl::Cord(), pending);
  }
  loop.RunPosted();
  CHECK(pending->answered == 0);
}

}  // namespace
}  // namespace paracord
