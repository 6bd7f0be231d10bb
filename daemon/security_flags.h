// The flags for SecurityOptions, and their effect on a network. Used in the main functions of
// programs.
#pragma once

#include <string>
#include <vector>

#include "config/cluster.h"
#include "config/flags.h"
#include "net/grpc/network.h"
#include "security/security_options.h"

namespace paracord {

// Adds the flags for all of `options` but http_clients. `options` must outlive `flags`.
void AddSecurityFlags(Flags& flags, SecurityOptions& options);

// Returns the command-line flags that mean `options`, except http_clients, for a daemon that this
// program starts.
std::vector<std::string> SecurityArguments(const SecurityOptions& options);

// Returns a line for people about each key or token file that every user of this host can read.
std::vector<std::string> OpenSecrets(const SecurityOptions& options);

// Checks the flags and loads their credentials into `grpc`. If there is a certificate, it must be
// of `task`, such as "ps:0", or of the role of `task`; if `task` is "" (of a client), it may be of
// any. With TLS, a process that `listens` needs a certificate. INVALID_ARGUMENT, or the error of a
// file, says what is wrong. UNAVAILABLE: the certificate has expired, or does not fit its key.
absl::Status SetUpSecurity(const SecurityOptions& options, const std::string& task, bool listens,
                           GrpcOptions& grpc);

// Returns the rights that a worker's certificate has beside a worker's: in a cluster whose workers
// are nodes, to be its ps, and its coordinator if the cluster names none; in other clusters, none
// (security/call_rights.h).
NodeRights NodeRightsIn(const Cluster& cluster);

// INVALID_ARGUMENT: by the flags, plain text would be sent to `address` on another machine. `key`,
// such as "the ps at", is put before the address in the message.
absl::Status CheckPlainText(const SecurityOptions& options, const std::string& address,
                            const std::string& key);

}  // namespace paracord
