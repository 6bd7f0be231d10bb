// Receives the pieces of an ExchangeReply directly where their values belong. It only parses the
// few bytes between them; the reader of the whole reply checks whether they make sense together.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/rpc.h"

namespace paracord {

// Returns where the bytes at `offset` of a partition go, or nullptr if they are not expected there.
// Called on a thread of the network's.
using PiecePlaceFn = std::function<char*(uint32_t partition, uint64_t offset, uint64_t bytes)>;

std::shared_ptr<Landing> MakeExchangeLanding(uint64_t bytes_max, PiecePlaceFn place);

}  // namespace paracord
