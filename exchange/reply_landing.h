// Receives the pieces of an ExchangeReply where their values belong. Only looks at the few bytes
// between them; whether they make sense together is for the reader of the whole reply to say.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/rpc.h"

namespace paracord {

// Where the bytes at `offset` of a partition go; nullptr: they are not expected, or not like that.
// Called on a thread of the network's.
using PiecePlaceFn = std::function<char*(uint32_t partition, uint64_t offset, uint64_t bytes)>;

std::shared_ptr<Landing> MakeExchangeLanding(uint64_t bytes_max, PiecePlaceFn place);

}  // namespace paracord
