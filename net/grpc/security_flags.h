// The flags of SecurityOptions, which all programs share, and what they say to a network. Used in
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

// Returns the flags that say what `options` do, for a daemon that this program starts.
std::vector<std::string> SecurityArguments(const SecurityOptions& options);

// Returns a line for each file of a key or token that every user of this host can read.
std::vector<std::string> OpenSecrets(const SecurityOptions& options);

// Checks the flags, and loads the credentials that they name into `grpc`. `task` is what the own
// certificate has to be for, such as "ps:0"; "" for a program that nobody dials, whose certificate
// may say anything. INVALID_ARGUMENT, or the error of a file, says which flag is wrong.
absl::Status SetUpSecurity(const SecurityOptions& options, const std::string& task,
                           GrpcOptions& grpc);

// Which roles the certificates of workers stand for besides, by this process's own cluster.
NodeRights NodeRightsIn(const Cluster& cluster);

// INVALID_ARGUMENT if the flags would send plain text to `address` on another machine; `key` says
// where the address comes from.
absl::Status CheckPlainText(const SecurityOptions& options, const std::string& address,
                            const std::string& key);

}  // namespace paracord
