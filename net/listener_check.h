// Checks that this process still accepts connections: after a burst of connections beyond the limit
// of descriptors, Debian's gRPC never accepts again, although the process looks healthy. The check
// calls this process's own Health.Check over a new connection, first after `period_ms` and then
// `period_ms` after each answer. After `failures` calls in a row that ended with UNAVAILABLE or
// DEADLINE_EXCEEDED, `deaf` runs on the loop, and the checks end. Owned by main, used on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/gate.h"
#include "common/rpc.h"

namespace paracord {

struct ListenerCheckOptions {
  int64_t period_ms = 10000;
  int64_t deadline_ms = 5000;
  int failures = 3;
};

class ListenerCheck {
 public:
  ListenerCheck(Network& network, EventLoop& loop, std::string address, std::function<void()> deaf,
                ListenerCheckOptions options = {});

 private:
  void Check();
  void Answered(const absl::Status& status);

  Network& network_;
  EventLoop& loop_;
  const std::string address_;
  const std::function<void()> deaf_;
  const ListenerCheckOptions options_;
  std::unique_ptr<Link> link_;  // carries the call in flight
  int failures_ = 0;
  const Gate gate_;
};

}  // namespace paracord
