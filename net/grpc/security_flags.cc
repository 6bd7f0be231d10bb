#include "net/grpc/security_flags.h"

namespace paracord {

void AddSecurityFlags(Flags& flags, SecurityOptions& options) {
  flags.String("tls-cert", "FILE", "use TLS, and prove with this certificate (PEM) who this is",
               &options.cert);
  flags.String("tls-key", "FILE", "the private key of --tls-cert (PEM)", &options.key);
  flags.String("tls-ca", "FILE", "use TLS, and believe the certificates that these sign (PEM)",
               &options.ca);
  flags.String("token-file", "FILE", "let in, or be let in, by this secret over TLS",
               &options.token_file);
  flags.Switch("insecure", "allow plain text, without any check, to and from other machines",
               &options.insecure);
}

}  // namespace paracord
