#include "net/health.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "net/rpc_proto.h"
#include "proto/grpc_health.pb.h"
#include "proto/health.pb.h"

namespace paracord {
namespace {

absl::StatusOr<Parts> OwnAnswer(const std::string& task, HealthState state) {
  HealthReply reply;
  reply.set_task(task);
  reply.set_ready(state.ready);
  reply.set_state(std::move(state.text));
  return ToParts(reply);
}

using Response = grpc::health::v1::HealthCheckResponse;

Response::ServingStatus GrpcStatusOf(const std::string& service, const HealthState& state) {
  if (service == "liveness") return Response::SERVING;
  if (service != "" && service != "readiness") return Response::SERVICE_UNKNOWN;
  return state.ready ? Response::SERVING : Response::NOT_SERVING;
}

absl::StatusOr<Parts> GrpcAnswer(const std::string& service, const HealthState& state) {
  constexpr size_t kShownBytesMax = 100;
  Response response;
  response.set_status(GrpcStatusOf(service, state));
  if (response.status() == Response::SERVICE_UNKNOWN) {
    return absl::NotFoundError(
        absl::StrCat("no service ", OneLine(service, kShownBytesMax),
                     ": there is \"\", which is \"readiness\", and there is \"liveness\""));
  }
  return ToParts(response);
}

}  // namespace

HealthService::HealthService(std::string task, EventLoop& loop, std::function<HealthState()> state,
                             Service* inner)
    : task_(std::move(task)), loop_(loop), state_(std::move(state)), inner_(inner) {}

void HealthService::OnLoop(std::shared_ptr<ServerCall> call,
                           std::function<absl::StatusOr<Parts>(HealthState)> answer) {
  loop_.Post(gate_.Enter([this, call = std::move(call), answer = std::move(answer)] {
    call->Reply(answer(state_()));
  }));
}

void HealthService::Watch(std::string service, std::shared_ptr<ServerCall> call) {
  if (watchers_.size() >= kHealthWatchersMax) {
    return call->Reply(absl::ResourceExhaustedError(
        absl::StrCat(task_, " is watched by ", kHealthWatchersMax, " callers already")));
  }
  const uint64_t number = next_watcher_++;
  call->OnCancel(gate_.EnterOn(loop_, [this, number] { watchers_.erase(number); }));
  watchers_[number] = {std::move(service), std::move(call)};
  Look();
}

void HealthService::Look() {
  constexpr int64_t kLookMs = 1000;
  const HealthState state = state_();
  for (auto each = watchers_.begin(); each != watchers_.end();) {
    Watcher& watcher = each->second;
    Response response;
    response.set_status(GrpcStatusOf(watcher.service, state));
    const bool told = watcher.sent == response.status() ||
                      watcher.call->Stream(absl::Cord(response.SerializeAsString()));
    watcher.sent = response.status();
    if (told) {
      ++each;
      continue;
    }
    watcher.call->Reply(absl::UnimplementedError("only connections of gRPC's own have Watch"));
    each = watchers_.erase(each);
  }
  if (watchers_.empty() || looks_again_) return;
  looks_again_ = true;
  loop_.PostAfter(kLookMs, gate_.Enter([this] {
    looks_again_ = false;
    Look();
  }));
}

void HealthService::Handle(std::string_view method, absl::Cord request,
                           std::shared_ptr<ServerCall> call) {
  if (method == kHealthMethod) {
    OnLoop(std::move(call),
           [task = task_](HealthState state) { return OwnAnswer(task, std::move(state)); });
  } else if (method == kGrpcHealthMethod) {
    const auto asked = ParseMessage<grpc::health::v1::HealthCheckRequest>(request);
    if (!asked.ok()) return call->Reply(asked.status());
    OnLoop(std::move(call), [service = asked->service()](const HealthState& state) {
      return GrpcAnswer(service, state);
    });
  } else if (method == kGrpcHealthWatchMethod) {
    const auto asked = ParseMessage<grpc::health::v1::HealthCheckRequest>(request);
    if (!asked.ok()) return call->Reply(asked.status());
    loop_.Post(gate_.Enter([this, service = asked->service(), call = std::move(call)]() mutable {
      Watch(std::move(service), std::move(call));
    }));
  } else if (inner_ != nullptr) {
    inner_->Handle(method, std::move(request), std::move(call));
  } else {
    call->Reply(absl::UnimplementedError(
        absl::StrCat(task_, " answers ", std::string(kHealthMethod), " alone")));
  }
}

}  // namespace paracord
