// The settings that say how a process proves who it is and whom it believes: the flags --tls-cert,
// --tls-key, --tls-ca, --tls-crl, --token-file, --cluster-name and --insecure
// (net/grpc/security_flags.h). Plain facts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

// Which other roles the certificate of a worker stands for in a cluster without ps, whose workers
// hold the variables as well. A cluster with ps gives neither right.
struct NodeRights {
  // The addresses of the workers by index: worker N is ps N, too, at its address alone.
  std::vector<std::string> ps = {};
  bool coordinator = false;  // worker 0 is the coordinator, too, because nobody else is chief
};

struct SecurityOptions {
  std::string cert;        // path of this process's certificate and its chain, PEM
  std::string key;         // path of the certificate's private key, PEM
  std::string ca;          // path of the certificates that sign those of peers, PEM
  std::string token_file;  // path of the secret that stands for a certificate of a client
  std::string cluster;     // the cluster of peers; empty: the one of the own certificate
  bool insecure = false;   // plain text is allowed beyond this machine
  std::string http_clients =
      {};                 // the roles that may read --http's pages, by commas; empty: anybody
  std::string crl = {};   // path of lists of revoked certificates, PEM; empty: none is revoked
  NodeRights nodes = {};  // no flag: the process's own TF_CONFIG says so

  // True if connections use TLS.
  bool tls() const { return !ca.empty(); }
};

// Returns INVALID_ARGUMENT for flags that do not go together, with the flag to give or to leave
// out. `listens` is true for a process that others dial, which needs a certificate.
absl::Status CheckSecurityOptions(const SecurityOptions& options, bool listens);

}  // namespace paracord
