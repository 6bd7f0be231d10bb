// The network that a node's roles dial with. Calls to the node's own address stay in the process
// (net/own_link.h), wherever the process listens; calls to all other addresses go over the network
// beneath. DialBoot compares the boot id instead of the address, because another process may listen
// at the node's address by now. Owned by the Node; threads as in common/rpc.h.
#pragma once

#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/rpc.h"

namespace paracord {

// The threads that serve calls to the own process: one for exchanges and early gradients, which may
// take long, and one for all other calls.
struct OwnLanes {
  Executor& calls;
  Executor& exchanges;
};

class OwnNetwork : public Network {
 public:
  // `address` is the one that others dial to reach `service`.
  OwnNetwork(std::string address, std::shared_ptr<Service> service, EventLoop& loop, OwnLanes lanes,
             Network& beneath);
  // Sets the boot id by which DialBoot knows the process. Called before the first dial.
  void SetBootId(std::string boot_id) { boot_id_ = std::move(boot_id); }

  std::unique_ptr<Link> Dial(const std::string& address) override;
  std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) override;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Service& service) override {
    return beneath_.Listen(address, service);
  }

 private:
  std::unique_ptr<Link> Own(const std::string& address);

  const std::string address_;
  std::string boot_id_;
  const std::shared_ptr<Service> service_;  // shared with links and the calls on the lanes
  EventLoop& loop_;
  const OwnLanes lanes_;
  Network& beneath_;
};

}  // namespace paracord
