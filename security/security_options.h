// How a process proves its identity and whom it trusts: the flags --tls-cert, --tls-key, --tls-ca,
// --tls-crl, --token-file, --cluster-name, --http-clients and --insecure (daemon/security_flags.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

// The further roles of a worker's certificate in a cluster without ps, where workers also hold the
// variables. In a cluster with ps there are none.
struct NodeRights {
  // Addresses of the workers by index. Worker N is also ps N, but only at its own address.
  std::vector<std::string> ps = {};
  bool coordinator = false;  // worker 0 is also the coordinator: TF_CONFIG has no chief
};

struct SecurityOptions {
  std::string cert;        // path of this process's certificate and chain, PEM; empty: none
  std::string key;         // path of the certificate's private key, PEM; empty: none
  std::string ca;          // path of the authorities' certificates, PEM; empty: no TLS
  std::string token_file;  // path of the token that replaces clients' certificates; empty: none
  std::string cluster;     // cluster of all peers; empty: that of the certificate
  bool insecure = false;   // connections to other machines may be in plain text
  std::string http_clients = {};  // roles that may read --http's pages, comma-separated; empty: all
  std::string crl = {};           // path of revocation lists, PEM; empty: none
  NodeRights nodes = {};          // from the process's TF_CONFIG, not from a flag

  // True if connections use TLS.
  bool tls() const { return !ca.empty(); }
};

// Returns INVALID_ARGUMENT, with the flag to change, to add or to remove, if a flag is wrong or
// missing, or flags contradict each other. `listens`: peers dial the process, so it needs a
// certificate.
absl::Status CheckSecurityOptions(const SecurityOptions& options, bool listens);

}  // namespace paracord
