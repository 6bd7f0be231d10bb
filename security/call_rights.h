// The one table of who may call what (docs/wire.md, "Who may call what"): gRPC, streams and
// shared memory ask it before they parse the body of a request. What is not in the table is
// refused. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "security/peer_identity.h"
#include "security/security_options.h"

namespace paracord {

struct CallRight {
  std::string_view method;            // "/paracord.Service/Name"
  std::optional<PeerRole> served_by;  // nullopt: every daemon
  std::vector<PeerRole> callers;
};
std::span<const CallRight> CallRights();

// Whether a peer of this role may make the call.
bool Allowed(std::string_view method, PeerRole role);

// Returns the role of the daemons that serve the method; nullopt if all do, or nobody.
std::optional<PeerRole> ServerOf(std::string_view method);

// Whether a peer may serve the calls of a role, and make its calls: its certificate is of the role,
// or of a worker that has the role as well in a cluster without ps.
bool StandsFor(const PeerIdentity& peer, PeerRole role, NodeRights nodes);

// An Access says what the process at the other end of a connection may do.
class Access {
 public:
  // Everything: the connection does not leave this machine, --insecure allows it, or the peer has
  // shown the token, which is one secret for all.
  Access() = default;
  // The peer may do what the table grants to its role, and to those that it stands for.
  explicit Access(PeerIdentity peer, NodeRights nodes = {})
      : peer_(std::move(peer)), nodes_(nodes) {}

  // Returns PERMISSION_DENIED, with the peer and the call, unless the peer may make the call.
  absl::Status Check(std::string_view method) const;
  // nullopt: the peer may speak for every task.
  const std::optional<PeerIdentity>& peer() const { return peer_; }
  // The peer's task, such as "worker:3" (ServerCall::caller).
  std::string task() const { return peer_.has_value() ? peer_->Task() : ""; }

 private:
  std::optional<PeerIdentity> peer_;
  NodeRights nodes_;
};

}  // namespace paracord
