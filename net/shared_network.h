// A network that uses shared memory between processes of a host. A peer listens under its boot id
// at an abstract unix socket, and DialBoot tries this socket first. Memory is shared only with
// processes of the same user, and with those of root, which could read the memory anyway: the
// kernel reports the user at the other end, and each side closes a connection to any other user
// before reading a byte. If the connection fails or ends, calls use the network beneath. Dial and
// Listen are those of the network beneath. Owned by main; threads as in common/rpc.h.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "common/rpc.h"
#include "net/shared_connection.h"
#include "security/call_rights.h"

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

  // Listens for DialBoot of other processes until the returned listener is destroyed. `service`
  // must outlive the listener. `access` says which calls every peer may make. UNAVAILABLE if the
  // socket cannot be made.
  static absl::StatusOr<std::unique_ptr<Listener>> Offer(
      const std::string& boot_id, Service& service, std::shared_ptr<RequestBudget> request_budget,
      int64_t reply_patience_ms = SharedConnection::kReplyPatienceMs, const Access& access = {});

  // True if a process of user `own` may share memory with a process of user `peer`.
  static bool MayShare(uid_t peer, uid_t own) { return peer == own || peer == 0; }

 private:
  Network& beneath_;
};

}  // namespace paracord
