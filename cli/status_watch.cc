#include "cli/status_watch.h"

#include <utility>

#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "coordinator/rival.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

StatusRequest From(uint64_t epoch) {
  StatusRequest request;
  request.set_history_from(epoch);
  return request;
}

// Returns the status in the answer of `address`.
absl::StatusOr<nlohmann::json> StatusIn(const StatusReply& reply, const std::string& address) {
  nlohmann::json status = JsonOf(reply.json());
  if (IsStatus(status)) return status;
  return absl::InternalError(address + " answers, but not as a coordinator does");
}

}  // namespace

absl::StatusOr<nlohmann::json> AskStatus(Network& network, const std::string& address,
                                         int64_t deadline_ms, uint64_t history_from) {
  ASSIGN_OR_RETURN(const StatusReply reply,
                   AwaitProto<StatusReply>(*network.Dial(address), method::kStatus,
                                           From(history_from), deadline_ms));
  return StatusIn(reply, address);
}

StatusWatch::StatusWatch(Network& network, const std::string& address)
    : state_(std::make_shared<State>()), link_(network.Dial(address)) {}

void StatusWatch::Ask(uint64_t history_from) {
  {
    MutexLock lock(state_->mu);
    if (state_->asking) return;
    state_->asking = true;
  }
  constexpr int64_t kDeadlineMs = 2000;
  CallProto<StatusReply>(
      *link_, method::kStatus, From(history_from), kDeadlineMs,
      [state = state_, address = link_->address()](const absl::StatusOr<StatusReply>& reply) {
        const auto status =
            reply.ok() ? StatusIn(*reply, address) : absl::StatusOr<nlohmann::json>(reply.status());
        MutexLock lock(state->mu);
        state->asking = false;
        if (!status.ok()) {
          state->problem = std::string(status.status().message());
          return;
        }
        state->newest = *status;
        state->newest_ms = SteadyMs();
        state->problem.clear();
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

int64_t StatusWatch::age_ms() const {
  MutexLock lock(state_->mu);
  return state_->newest.has_value() ? SteadyMs() - state_->newest_ms : 0;
}

}  // namespace paracord
