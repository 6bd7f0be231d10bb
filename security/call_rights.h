// The only table of access rights (docs/security.md, "Who may call what"). gRPC, streams and shared
// memory check a call here before they parse its body. A peer with a certificate may make no call
// that is not listed.
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

// Returns whether a peer with this role may make the call.
bool Allowed(std::string_view method, PeerRole role);

// Returns the role of the daemons that serve the method; nullopt if every daemon does, or none.
std::optional<PeerRole> ServerOf(std::string_view method);

// Returns whether a peer may serve, at `address`, the calls that daemons of `role` serve. The
// peer's certificate must name the role. But in a cluster without ps, a peer with worker N's
// certificate may also serve a ps's calls at worker N's address, and a peer with worker 0's
// certificate the coordinator's calls if there is no chief. A peer with a certificate for every
// worker, without an index, may serve a ps's calls at any worker's address, and never the
// coordinator's calls.
bool Serves(const PeerIdentity& peer, PeerRole role, const std::string& address,
            const NodeRights& nodes);
// Returns who should serve the calls of `role` at `address`, for errors: "a ps", "worker:0, the
// coordinator", or "worker:1, which is the ps at this address".
std::string ServerText(PeerRole role, const std::string& address, const NodeRights& nodes);

// Returns whether a peer may make the calls of `role`: its certificate has the role; or the role is
// the coordinator's, worker 0 is also the coordinator, and the certificate is worker 0's.
bool CallsAs(const PeerIdentity& peer, PeerRole role, const NodeRights& nodes);

// What the peer of a connection may do.
class Access {
 public:
  // Allows every call: the connection stays on this machine, or --insecure is given, or the peer
  // has shown the token, which is the same for all clients.
  Access() = default;
  // Allows the calls that the table grants to the roles of `peer` (CallsAs).
  explicit Access(PeerIdentity peer, const NodeRights& nodes = {});

  // Returns PERMISSION_DENIED, with the peer and the call, unless the peer may make the call.
  absl::Status Check(std::string_view method) const;
  // The peer's identity; nullopt: the peer may speak for any task.
  const std::optional<PeerIdentity>& peer() const { return peer_; }
  // The peer's task, such as "worker:3" (ServerCall::caller); "" without an identity.
  std::string task() const { return peer_.has_value() ? peer_->Task() : ""; }

 private:
  std::optional<PeerIdentity> peer_;
  std::vector<PeerRole> roles_;  // the roles whose calls the peer may make
};

}  // namespace paracord
