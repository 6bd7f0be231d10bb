#include "net/relayed_peers.h"

namespace paracord {

absl::StatusOr<RelayedPeer> PeerBehind(const TlsChannel& tls, Credentials& credentials) {
  if (!tls.shows_certificate() && credentials.takes_token()) {
    return RelayedPeer{.access = {}, .needs_token = true};
  }
  absl::StatusOr<PeerIdentity> identity = credentials.PeerOf(tls.ssl());
  if (!identity.ok()) return identity.status();
  return RelayedPeer{.access = Access(*std::move(identity), credentials.nodes()),
                     .needs_token = false,
                     .certificate = PeerCertificate(tls.ssl())};
}

}  // namespace paracord
