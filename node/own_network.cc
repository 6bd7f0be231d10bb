#include "node/own_network.h"

#include <string_view>
#include <utility>

#include "net/own_link.h"
#include "proto/protocol.h"

namespace paracord {

OwnNetwork::OwnNetwork(std::string address, std::shared_ptr<Service> service, EventLoop& loop,
                       OwnLanes lanes, Network& beneath)
    : address_(std::move(address)),
      service_(std::move(service)),
      loop_(loop),
      lanes_(lanes),
      beneath_(beneath) {}

std::unique_ptr<Link> OwnNetwork::Own(const std::string& address) {
  const auto lane_of = [lanes = lanes_](std::string_view method) -> Executor& {
    const bool long_one = method == method::kExchange || method == method::kStage;
    return long_one ? lanes.exchanges : lanes.calls;
  };
  return std::make_unique<OwnLink>(address, service_, loop_, lane_of);
}

std::unique_ptr<Link> OwnNetwork::Dial(const std::string& address) {
  return address == address_ ? Own(address) : beneath_.Dial(address);
}

std::unique_ptr<Link> OwnNetwork::DialBoot(const std::string& address, const std::string& boot_id) {
  if (boot_id == boot_id_) return Own(address);
  return beneath_.DialBoot(address, boot_id);
}

}  // namespace paracord
