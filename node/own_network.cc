#include "node/own_network.h"

#include <utility>

#include "net/own_link.h"

namespace paracord {

OwnNetwork::OwnNetwork(std::string address, Service& service, EventLoop& loop, Executor& lane,
                       Network& beneath)
    : address_(std::move(address)),
      service_(service),
      loop_(loop),
      lane_(lane),
      beneath_(beneath) {}

std::unique_ptr<Link> OwnNetwork::Own(const std::string& address) {
  return std::make_unique<OwnLink>(address, service_, loop_, lane_);
}

std::unique_ptr<Link> OwnNetwork::Dial(const std::string& address) {
  return address == address_ ? Own(address) : beneath_.Dial(address);
}

std::unique_ptr<Link> OwnNetwork::DialBoot(const std::string& address, const std::string& boot_id) {
  if (boot_id == boot_id_) return Own(address);
  return beneath_.DialBoot(address, boot_id);
}

}  // namespace paracord
