// The peer behind each connection that a relay hands to gRPC. gRPC sees only the relay's socket,
// whose name is the key here. Shared by the relay and gRPC's threads; thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "net/tls_channel.h"
#include "security/call_rights.h"
#include "security/credentials.h"

namespace paracord {

struct RelayedPeer {
  Access access;
  bool needs_token = false;  // must show the token with each call
  bool is_known = false;     // has shown the token once
  bool ended = false;        // the peer sends no more
  PeerCertificate certificate = {};
};

// Returns the peer of a connection after its handshake; UNAUTHENTICATED if the certificate is of
// another cluster. A peer without a certificate may have to show the token.
absl::StatusOr<RelayedPeer> PeerBehind(const TlsChannel& tls, Credentials& credentials);

class RelayedPeers {
 public:
  void Add(const std::string& name, RelayedPeer peer) {
    MutexLock lock(mu_);
    peers_.insert_or_assign(name, std::move(peer));
  }
  void SetEnded(const std::string& name) {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    if (found != peers_.end()) found->second.ended = true;
  }
  // Also true for an unknown or closed connection.
  bool Ended(const std::string& name) const {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    return found == peers_.end() || found->second.ended;
  }
  void Remove(const std::string& name) {
    MutexLock lock(mu_);
    peers_.erase(name);
  }
  // Notes that the peer has shown the token.
  void Know(const std::string& name) {
    MutexLock lock(mu_);
    if (const auto found = peers_.find(name); found != peers_.end()) found->second.is_known = true;
  }
  std::optional<RelayedPeer> Find(const std::string& name) const {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    return found == peers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, RelayedPeer> peers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
