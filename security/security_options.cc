#include "security/security_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "security/peer_identity.h"

namespace paracord {

absl::Status CheckSecurityOptions(const SecurityOptions& options, bool listens) {
  const std::vector<std::string> roles =
      absl::StrSplit(options.http_clients, ',', absl::SkipEmpty());
  for (const std::string& role : roles) {
    const bool known = std::any_of(std::begin(kPeerRoles), std::end(kPeerRoles),
                                   [&](PeerRole each) { return NameOf(each) == role; });
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--http-clients: ", role,
                     " is no role: ps, worker, coordinator, operator and monitor are"));
  }
  const bool cert = !options.cert.empty(), key = !options.key.empty();
  const bool token = !options.token_file.empty();
  if (cert && !key) return absl::InvalidArgumentError("--tls-cert needs its --tls-key FILE");
  if (key && !cert) return absl::InvalidArgumentError("--tls-key needs its --tls-cert FILE");
  if (options.insecure && (cert || token || options.tls())) {
    return absl::InvalidArgumentError(
        "--insecure asks for plain text, and --tls-cert, --tls-key, --tls-ca and --token-file for "
        "TLS: leave out one or the other");
  }
  if ((cert || token || !options.crl.empty()) && !options.tls()) {
    return absl::InvalidArgumentError(
        "TLS needs --tls-ca FILE, the certificates that sign those of peers");
  }
  if (options.tls() && !cert && listens) {
    return absl::InvalidArgumentError(
        "--tls-ca alone cannot serve: a process that others dial needs --tls-cert FILE and "
        "--tls-key FILE");
  }
  if (options.tls() && !cert && !token) {
    return absl::InvalidArgumentError(
        "--tls-ca alone proves nothing to a peer: give --tls-cert FILE and --tls-key FILE, or "
        "--token-file FILE");
  }
  return absl::OkStatus();
}

}  // namespace paracord
