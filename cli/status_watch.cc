#include "cli/status_watch.h"

#include "common/json_text.h"
#include "net/protocol.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"

namespace paracord {

StatusWatch::StatusWatch(Network& network, const std::string& address)
    : state_(std::make_shared<State>()), link_(network.Dial(address)) {}

void StatusWatch::Ask() {
  {
    MutexLock lock(state_->mu);
    if (state_->asking) return;
    state_->asking = true;
  }
  constexpr int64_t kDeadlineMs = 2000;
  CallProto<StatusReply>(*link_, method::kStatus, StatusRequest(), kDeadlineMs,
                         [state = state_](const absl::StatusOr<StatusReply>& reply) {
                           MutexLock lock(state->mu);
                           state->asking = false;
                           if (!reply.ok()) {
                             state->problem = std::string(reply.status().message());
                             return;
                           }
                           nlohmann::json status = JsonOf(reply->json());
                           if (!status.is_discarded()) state->newest = std::move(status);
                         });
}

std::optional<nlohmann::json> StatusWatch::newest() const {
  MutexLock lock(state_->mu);
  return state_->newest;
}

std::string StatusWatch::problem() const {
  MutexLock lock(state_->mu);
  return state_->problem;
}

}  // namespace paracord
