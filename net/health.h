// Tells supervisors the state of a daemon. Answers Health.Check (proto/health.proto) and gRPC's own
// Check and Watch (proto/grpc_health.proto) on the daemon's event loop, which proves that the loop
// runs, and hands all other calls on. Owned by main, destroyed after the listener; Handle may be
// called from many threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/event_loop.h"
#include "common/gate.h"
#include "common/rpc.h"

namespace paracord {

inline constexpr std::string_view kHealthMethod = "/paracord.Health/Check";
inline constexpr std::string_view kGrpcHealthMethod = "/grpc.health.v1.Health/Check";
inline constexpr std::string_view kGrpcHealthWatchMethod = "/grpc.health.v1.Health/Watch";
inline constexpr size_t kHealthWatchersMax = 100;  // the most Watch calls at a time

struct HealthState {
  bool ready = false;  // the daemon takes part in a job, or the job is done
  std::string text;    // what the daemon does: "holds 3 partitions"
};

class HealthService : public Service {
 public:
  // `state` runs on the loop. All other calls go to `inner`; if `inner` is null, they are answered
  // with UNIMPLEMENTED.
  HealthService(std::string task, EventLoop& loop, std::function<HealthState()> state,
                Service* inner);

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

 private:
  // Runs `answer` with the state on the loop, and replies with its result.
  void OnLoop(std::shared_ptr<ServerCall> call,
              std::function<absl::StatusOr<Parts>(HealthState)> answer);
  void Watch(std::string service, std::shared_ptr<ServerCall> call);
  // Sends each watcher the state if it differs from the last state sent to that watcher. Runs again
  // after a second while there are watchers.
  void Look();

  struct Watcher {
    std::string service;
    std::shared_ptr<ServerCall> call;
    int sent = -1;  // the last HealthCheckResponse::ServingStatus sent; -1: none yet
  };
  const std::string task_;
  EventLoop& loop_;
  const std::function<HealthState()> state_;
  Service* const inner_;
  std::map<uint64_t, Watcher> watchers_;  // keyed by number, from 0; used on the loop
  uint64_t next_watcher_ = 0;
  bool looks_again_ = false;  // a timer will call Look
  const Gate gate_;
};

}  // namespace paracord
