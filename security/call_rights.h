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

// Returns whether the peer at an address may serve the calls of a role. Its certificate has to name
// the role. In a cluster without ps, a certificate of worker N serves the calls of a ps at the
// address of worker N, and one of worker 0 those of the coordinator if there is no chief. A
// certificate of workers without an index serves the calls of a ps at each worker's address, and
// never those of the coordinator.
bool Serves(const PeerIdentity& peer, PeerRole role, const std::string& address,
            const NodeRights& nodes);
// Names who serves the calls of a role at an address, for messages: "a ps", or "worker:1, which is
// the ps at this address".
std::string ServerText(PeerRole role, const std::string& address, const NodeRights& nodes);

// Whether a peer may make the calls of a role: its certificate is of the role, or of worker 0 where
// that is the coordinator as well.
bool CallsAs(const PeerIdentity& peer, PeerRole role, const NodeRights& nodes);

// An Access says what the process at the other end of a connection may do.
class Access {
 public:
  // Everything: the connection does not leave this machine, --insecure allows it, or the peer has
  // shown the token, which is one secret for all.
  Access() = default;
  // The peer may do what the table grants to the roles that it has (CallsAs).
  explicit Access(PeerIdentity peer, const NodeRights& nodes = {});

  // Returns PERMISSION_DENIED, with the peer and the call, unless the peer may make the call.
  absl::Status Check(std::string_view method) const;
  // nullopt: the peer may speak for every task.
  const std::optional<PeerIdentity>& peer() const { return peer_; }
  // The peer's task, such as "worker:3" (ServerCall::caller).
  std::string task() const { return peer_.has_value() ? peer_->Task() : ""; }

 private:
  std::optional<PeerIdentity> peer_;
  std::vector<PeerRole> roles_;  // of the peer
};

}  // namespace paracord
