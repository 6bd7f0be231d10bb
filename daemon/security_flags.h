// The flags of SecurityOptions, shared by all programs, and their effect on a network. Used in
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

// Returns command-line flags equal to `options`, for a daemon started by this program.
std::vector<std::string> SecurityArguments(const SecurityOptions& options);

// Returns a line for each key or token file readable by every user of this host.
std::vector<std::string> OpenSecrets(const SecurityOptions& options);

// Checks the flags and loads their credentials into `grpc`. `task`, such as "ps:0", must be in the
// own certificate; "" for a client whose certificate may be of any role. A process that `listens`
// needs a certificate. INVALID_ARGUMENT, or the error of a file, names the wrong flag.
absl::Status SetUpSecurity(const SecurityOptions& options, const std::string& task, bool listens,
                           GrpcOptions& grpc);

// The further roles of workers' certificates, according to this process's cluster.
NodeRights NodeRightsIn(const Cluster& cluster);

// INVALID_ARGUMENT if the flags would send plain text to `address` on another machine; `key` says
// where the address comes from.
absl::Status CheckPlainText(const SecurityOptions& options, const std::string& address,
                            const std::string& key);

}  // namespace paracord
