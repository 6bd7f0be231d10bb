// A link to a service of this process (common/rpc.h). Request and reply are handed over by
// reference, without copies. An executor, called a lane here, hands its calls to the service one
// after the other, never on the caller's thread. `done` must not block. It runs on the thread that
// replies, on the loop if the deadline passes, on the thread that destroys the link, or inside Call
// with RESOURCE_EXHAUSTED if 1024 earlier calls are still with the service.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/rpc.h"

namespace paracord {

class OwnLink : public Link {
 public:
  // Returns the lane that serves a method, to keep short calls from waiting behind long ones.
  using LaneOf = std::function<Executor&(std::string_view method)>;

  // The link and the calls waiting on a lane share `service`: the calls reach the service even
  // after the link is destroyed. `loop` keeps the deadlines; `loop` and the lanes must outlive the
  // link. Errors name `address`.
  OwnLink(std::string address, std::shared_ptr<Service> service, EventLoop& loop, LaneOf lane_of);
  // Calls without an answer get CANCELLED, and the functions that the service gave to their
  // OnCancel run. Afterwards no `done` runs any more.
  ~OwnLink() override;

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override;
  const std::string& address() const override { return address_; }
  // The service reads requests in the caller's memory. A reply stays valid as long as its Cord.
  bool shares_memory() const override { return true; }

 private:
  class Calls;
  class ServerSide;
  const std::string address_;
  const std::shared_ptr<Service> service_;
  const LaneOf lane_of_;
  // Shared with the calls that the service has not answered, which may outlive the link.
  const std::shared_ptr<Calls> calls_;
};

}  // namespace paracord
