// A network that passes by the sockets where both ends are on one host: a peer offers itself under
// its boot id (an abstract unix socket, open to processes of the same user alone), and whoever
// dials that boot id finds it there. Everything else, and everything that fails, goes through the
// network beneath. Owned by main; threads as in common/rpc.h.
#pragma once

#include <memory>
#include <string>

#include "common/rpc.h"
#include "net/shared_connection.h"

namespace paracord {

class SharedNetwork : public Network {
 public:
  explicit SharedNetwork(Network& beneath) : beneath_(beneath) {}

  std::unique_ptr<Link> Dial(const std::string& address) override { return beneath_.Dial(address); }
  std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) override;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Service& service) override {
    return beneath_.Listen(address, service);
  }

  // From now until the listener is destroyed. `service` outlives it.
  static absl::StatusOr<std::unique_ptr<Listener>> Offer(
      const std::string& boot_id, Service& service, std::shared_ptr<Intake> intake,
      int64_t reply_patience_ms = SharedConnection::kReplyPatienceMs);

 private:
  Network& beneath_;
};

}  // namespace paracord
