// The peers behind the connections that a relay (net/frame_relay.h) hands to gRPC, keyed by the
// name of the relay's socket, which gRPC sees. Shared by the relay and gRPC's threads; thread-safe.
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
  bool needs_token = false;  // the peer has to show the token with each call
  bool is_known = false;     // gRPC has seen the token in a call of the peer
  bool ended = false;        // the peer has closed its sending direction
  bool was_refused = false;  // a call of the peer was refused
  PeerCertificate certificate = {};
  std::string address = "";  // of the peer
};

// Returns the peer of a connection after its TLS handshake. A peer without a certificate has to
// show the token, if the cluster has a token. UNAUTHENTICATED if the peer has no certificate and
// the cluster no token, or if the certificate is without an identity or of another cluster.
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
  // True if the peer of the connection has closed its sending direction, or if `name` is not here.
  bool Ended(const std::string& name) const {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    return found == peers_.end() || found->second.ended;
  }
  void Remove(const std::string& name) {
    MutexLock lock(mu_);
    peers_.erase(name);
  }
  // Sets is_known: the peer has shown the token.
  void Know(const std::string& name) {
    MutexLock lock(mu_);
    if (const auto found = peers_.find(name); found != peers_.end()) found->second.is_known = true;
  }
  // Sets was_refused. Returns the peer for the first refusal of its connection, and null for later
  // ones or if `name` is not here.
  std::optional<RelayedPeer> FirstRefusal(const std::string& name) {
    MutexLock lock(mu_);
    const auto found = peers_.find(name);
    if (found == peers_.end() || std::exchange(found->second.was_refused, true)) return {};
    return found->second;
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
