// The network of a node's roles. Calls to the node's own address stay in the process
// (net/own_link.h). All other calls go to the network `beneath`. DialBoot compares the boot id, not
// the address, because another process may have taken over the address. Owned by the Node; threads
// as in common/rpc.h.
#pragma once

#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/rpc.h"

namespace paracord {

// Executors for calls within the process: `exchanges` for Exchange and Stage, which may take long,
// `calls` for the rest.
struct OwnLanes {
  Executor& calls;
  Executor& exchanges;
};

class OwnNetwork : public Network {
 public:
  // `address` is the address at which peers dial `service`.
  OwnNetwork(std::string address, std::shared_ptr<Service> service, EventLoop& loop, OwnLanes lanes,
             Network& beneath);
  // Sets the boot id of this process, for DialBoot. Called before the first dial.
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
  const std::shared_ptr<Service> service_;  // shared with links and with calls on the executors
  EventLoop& loop_;
  const OwnLanes lanes_;
  Network& beneath_;
};

}  // namespace paracord
