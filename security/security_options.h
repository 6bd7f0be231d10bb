// How a process proves its identity and whom it trusts: the flags --tls-cert, --tls-key, --tls-ca,
// --tls-crl, --token-file, --cluster-name and --insecure (daemon/security_flags.h). Plain facts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

// The further roles of a worker's certificate in a cluster without ps, where workers also hold the
// variables. Empty in a cluster with ps.
struct NodeRights {
  // Addresses of the workers by index. Worker N is also ps N, but only at its own address.
  std::vector<std::string> ps = {};
  bool coordinator = false;  // worker 0 is also the coordinator: there is no chief
};

struct SecurityOptions {
  std::string cert;               // path of the own certificate and its chain, PEM
  std::string key;                // path of the certificate's private key, PEM
  std::string ca;                 // path of the authorities' certificates, PEM
  std::string token_file;         // path of the secret that replaces a client's certificate
  std::string cluster;            // cluster of peers; empty: that of the own certificate
  bool insecure = false;          // plain text is allowed to other machines
  std::string http_clients = {};  // roles that may read --http's pages, comma-separated; empty: all
  std::string crl = {};           // path of revocation lists, PEM; empty: none
  NodeRights nodes = {};          // from the process's TF_CONFIG, not a flag

  // True if connections use TLS.
  bool tls() const { return !ca.empty(); }
};

// Returns INVALID_ARGUMENT if flags contradict each other, with the flag to add or to remove.
// `listens`: peers dial the process, so it needs a certificate.
absl::Status CheckSecurityOptions(const SecurityOptions& options, bool listens);

}  // namespace paracord
