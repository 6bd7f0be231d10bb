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

absl::StatusOr<Parts> GrpcAnswer(const std::string& service, const HealthState& state) {
  using Response = grpc::health::v1::HealthCheckResponse;
  constexpr size_t kShownBytesMax = 100;
  if (service != "" && service != "readiness" && service != "liveness") {
    return absl::NotFoundError(
        absl::StrCat("no service ", OneLine(service, kShownBytesMax),
                     ": there is \"\", which is \"readiness\", and there is \"liveness\""));
  }
  Response response;
  const bool serves = state.ready || service == "liveness";
  response.set_status(serves ? Response::SERVING : Response::NOT_SERVING);
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
  } else if (inner_ != nullptr) {
    inner_->Handle(method, std::move(request), std::move(call));
  } else {
    call->Reply(absl::UnimplementedError(
        absl::StrCat(task_, " answers ", std::string(kHealthMethod), " alone")));
  }
}

}  // namespace paracord
