#include "net/health.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/rpc_proto.h"
#include "proto/health.pb.h"

namespace paracord {

HealthService::HealthService(std::string task, EventLoop& loop, std::function<HealthState()> state,
                             Service* inner)
    : task_(std::move(task)), loop_(loop), state_(std::move(state)), inner_(inner) {}

void HealthService::Handle(std::string_view method, absl::Cord request,
                           std::shared_ptr<ServerCall> call) {
  if (method == kHealthMethod) {
    loop_.Post(gate_.Enter([this, call = std::move(call)] {
      HealthState state = state_();
      HealthReply reply;
      reply.set_task(task_);
      reply.set_ready(state.ready);
      reply.set_state(std::move(state.text));
      call->Reply(ToParts(reply));
    }));
  } else if (inner_ != nullptr) {
    inner_->Handle(method, std::move(request), std::move(call));
  } else {
    call->Reply(absl::UnimplementedError(
        absl::StrCat(task_, " answers ", std::string(kHealthMethod), " alone")));
  }
}

}  // namespace paracord
