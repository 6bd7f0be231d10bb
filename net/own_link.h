// A link to a service of the own process. A call is handed over by reference: the service gets the
// very bytes of the caller, and the caller those of the reply, so that neither is copied. A lane,
// which is an executor, hands calls to the service one after the other, never the caller's thread;
// `done` runs on the thread that replies, or on the loop if the deadline passes, and must not
// block. See common/rpc.h.
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
  // Says on which lane a method is served, so that short calls need not wait behind long ones.
  using LaneOf = std::function<Executor&(std::string_view method)>;

  // The link and the calls that wait on a lane share `service`, which these calls reach even if the
  // link's owner has gone. `loop`, which keeps deadlines, and the lanes outlive the link. `address`
  // is named in errors.
  OwnLink(std::string address, std::shared_ptr<Service> service, EventLoop& loop, LaneOf lane_of);
  // Calls that are not answered get CANCELLED, on both sides; then no `done` runs any more.
  ~OwnLink() override;

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override;
  const std::string& address() const override { return address_; }
  // The service reads requests where the caller has them. Replies stay valid as long as their
  // reader keeps them.
  bool shares_memory() const override { return true; }

 private:
  class Calls;
  class ServerSide;
  const std::string address_;
  const std::shared_ptr<Service> service_;
  const LaneOf lane_of_;
  const std::shared_ptr<Calls> calls_;  // shared with calls that are served, which may outlive this
};

}  // namespace paracord
