// A link to a peer that probably speaks streams (net/stream_connection.h). It connects on the first
// call, and again after the connection broke. If it cannot connect (the peer does not speak
// streams, or something in between refuses them), calls use the link beneath. See common/rpc.h.
#pragma once

#include <memory>

#include "common/rpc.h"
#include "net/name_lookup.h"

namespace paracord {

std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath);
// `name` resolves the peer's address.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name);

}  // namespace paracord
