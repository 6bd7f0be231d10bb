// A link (common/rpc.h) to a peer that probably speaks streams (net/stream_connection.h). The first
// call connects. After the connection broke or could not be made, a later call connects again, but
// no sooner than 1 s after a break, or 1 to 60 s after a failed attempt. Without a stream (if the
// peer does not speak streams or fails verification, for example), calls use `beneath`.
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
// Like the function above; `name` resolves the peer's address.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name,
                                     std::shared_ptr<Credentials> credentials = nullptr);

}  // namespace paracord
