// A link to a peer that most likely speaks streams (net/stream_connection.h): connects when the
// first call comes, and again when that connection broke; where it cannot (the peer does not speak
// it, something between refuses it), calls go by the link beneath. See common/rpc.h.
#pragma once

#include <memory>

#include "common/rpc.h"
#include "net/name_lookup.h"

namespace paracord {

std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath);
// `name`: how the peer's address is found.
std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name);

}  // namespace paracord
