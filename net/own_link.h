// A link to a service of the own process. A call is handed over by reference: the service gets the
// very bytes of the caller, and the caller those of the reply, so that neither is copied. Like a
// connection it hands calls over one after the other on a thread of its own kind, the `lane`, never
// on the caller's; `done` runs on whatever thread replies, or on the loop if the deadline passes,
// and must not block. See common/rpc.h.
#pragma once

#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/rpc.h"

namespace paracord {

class OwnLink : public Link {
 public:
  // `service` has to outlive what `lane` still runs, and `loop`, which keeps deadlines, the link.
  // `address` is named in errors.
  OwnLink(std::string address, Service& service, EventLoop& loop, Executor& lane);
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
  Service& service_;
  Executor& lane_;
  const std::shared_ptr<Calls> calls_;  // shared with calls that are served, which may outlive this
};

}  // namespace paracord
