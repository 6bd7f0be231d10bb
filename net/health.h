// Tells supervisors the state of a daemon: answers Health.Check (proto/health.proto) and gRPC's own
// (proto/grpc_health.proto) on the daemon's event loop, so that an answer shows that the loop
// turns, and hands every other call on. Owned by main, which destroys it after the listener; Handle
// may be called from many threads at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/event_loop.h"
#include "common/gate.h"
#include "common/rpc.h"

namespace paracord {

inline constexpr std::string_view kHealthMethod = "/paracord.Health/Check";
inline constexpr std::string_view kGrpcHealthMethod = "/grpc.health.v1.Health/Check";

struct HealthState {
  bool ready = false;  // it takes part in a job, or the job is done
  std::string text;    // what it does, as a phrase: "holds 3 partitions"
};

class HealthService : public Service {
 public:
  // `state` runs on the loop. `inner` may be null: there are no other calls.
  HealthService(std::string task, EventLoop& loop, std::function<HealthState()> state,
                Service* inner);

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

 private:
  // Answers with what is made of the state, on the loop.
  void OnLoop(std::shared_ptr<ServerCall> call,
              std::function<absl::StatusOr<Parts>(HealthState)> answer);

  const std::string task_;
  EventLoop& loop_;
  const std::function<HealthState()> state_;
  Service* const inner_;
  const Gate gate_;
};

}  // namespace paracord
