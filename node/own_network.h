// The network of a node's roles: what they dial of the own process is called there
// (net/own_link.h), and everything else over the network beneath. A coordinator that dials the
// node's address means the node's ps, and a worker its coordinator, both of them this process,
// wherever it listens. A boot id may be another process's that listens at that address. Owned by
// the Node; threads as in common/rpc.h.
#pragma once

#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/rpc.h"

namespace paracord {

class OwnNetwork : public Network {
 public:
  // `address` is what others dial to reach `service`, which runs on `lane`.
  OwnNetwork(std::string address, Service& service, EventLoop& loop, Executor& lane,
             Network& beneath);
  // The boot id by which DialBoot knows the process. Called before anything is dialled.
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
  Service& service_;
  EventLoop& loop_;
  Executor& lane_;
  Network& beneath_;
};

}  // namespace paracord
