#include "security/security_options.h"

namespace paracord {

absl::Status CheckSecurityOptions(const SecurityOptions& options, bool listens) {
  const bool cert = !options.cert.empty(), key = !options.key.empty();
  const bool token = !options.token_file.empty();
  if (cert && !key) return absl::InvalidArgumentError("--tls-cert needs its --tls-key FILE");
  if (key && !cert) return absl::InvalidArgumentError("--tls-key needs its --tls-cert FILE");
  if (options.insecure && (cert || token || options.tls())) {
    return absl::InvalidArgumentError(
        "--insecure asks for plain text, and --tls-cert, --tls-key, --tls-ca and --token-file for "
        "TLS: leave out one or the other");
  }
  if ((cert || token) && !options.tls()) {
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
