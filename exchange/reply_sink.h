// Receives the values in an ExchangeReply directly at their destination. The sink parses only the
// bytes between the data of pieces. The reader of the whole reply checks the pieces.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/rpc.h"

namespace paracord {

// Returns the destination for `bytes` bytes at byte `offset` of a partition's values, or nullptr if
// none are expected there: the rest of the reply then stays in the network's memory. Called on a
// network thread.
using PiecePlaceFn = std::function<char*(uint32_t partition, uint64_t offset, uint64_t bytes)>;

// The connection is closed if the reply has more than `bytes_max` bytes.
std::shared_ptr<ReplySink> MakeExchangeSink(uint64_t bytes_max, PiecePlaceFn place);

}  // namespace paracord
