// A link to a peer that probably speaks streams (net/stream_connection.h). Connects on the first
// call, and again after the connection broke. If no stream comes about (the peer does not speak
// streams or fails verification, or a middlebox refuses them), calls use the link beneath. See
// common/rpc.h.
#pragma once

#include <memory>

#include "common/rpc.h"
#include "net/name_lookup.h"
#include "security/credentials.h"

namespace paracord {

// With `credentials` the stream is under TLS and the peer must be a ps of the cluster.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath,
                                     std::shared_ptr<Credentials> credentials = nullptr);
// `name` resolves the peer's address.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name,
                                     std::shared_ptr<Credentials> credentials = nullptr);

}  // namespace paracord
