// A network that uses shared memory between processes of one host. A peer listens under its boot id
// at an abstract unix socket that only processes of the same user may use, and DialBoot looks there
// first. All other calls, and whatever fails, use the network beneath. Owned by main; threads as in
// common/rpc.h.
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

  // Listens until the returned listener is destroyed. `service` must outlive it.
  static absl::StatusOr<std::unique_ptr<Listener>> Offer(
      const std::string& boot_id, Service& service, std::shared_ptr<Intake> intake,
      int64_t reply_patience_ms = SharedConnection::kReplyPatienceMs);

 private:
  Network& beneath_;
};

}  // namespace paracord
