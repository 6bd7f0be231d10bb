// The flags for SecurityOptions, which all programs have, and their effect on a network. Used in
// main.
#pragma once

#include <string>
#include <vector>

#include "config/cluster.h"
#include "config/flags.h"
#include "net/grpc/network.h"
#include "security/security_options.h"

namespace paracord {

// `options` must outlive `flags`.
void AddSecurityFlags(Flags& flags, SecurityOptions& options);

// Returns the command-line flags that mean `options`, except http_clients, for a daemon that this
// program starts.
std::vector<std::string> SecurityArguments(const SecurityOptions& options);

// Returns a line for people for each file of a key or token that every user of this host can read.
std::vector<std::string> OpenSecrets(const SecurityOptions& options);

// Checks the flags and loads their credentials into `grpc`. The certificate, if there is one, must
// be of `task`, such as "ps:0", or of its role; "": of a client, which may have any. A process that
// `listens` needs a certificate. INVALID_ARGUMENT, or the error of a file, names the flag that is
// wrong. UNAVAILABLE: the certificate has expired, or does not fit its key.
absl::Status SetUpSecurity(const SecurityOptions& options, const std::string& task, bool listens,
                           GrpcOptions& grpc);

// The rights that certificates of workers have beside their own where workers are nodes of this
// cluster: to be its ps, and its coordinator if the cluster names none (security/call_rights.h).
NodeRights NodeRightsIn(const Cluster& cluster);

// INVALID_ARGUMENT: the flags would have plain text sent to `address` on another machine. `key`
// says, for the message, where the address comes from.
absl::Status CheckPlainText(const SecurityOptions& options, const std::string& address,
                            const std::string& key);

}  // namespace paracord
