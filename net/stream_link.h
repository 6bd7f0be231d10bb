// A link (common/rpc.h) to a peer that probably speaks streams (net/stream_connection.h). Connects
// on the first call, and on a later call after the connection broke or could not be made, but not
// in the first 1 to 60 s after that. While there is no stream (the peer does not speak streams or
// fails verification, or a middlebox refuses streams), calls use `beneath`.
#pragma once

#include <memory>

#include "common/rpc.h"
#include "net/name_lookup.h"
#include "security/credentials.h"

namespace paracord {

// With `credentials` the stream is under TLS, and the peer's certificate must be that of a ps of
// the cluster, or of the node at the address.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath,
                                     std::shared_ptr<Credentials> credentials = nullptr);
// As above; `name` resolves the peer's address.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name,
                                     std::shared_ptr<Credentials> credentials = nullptr);

}  // namespace paracord
