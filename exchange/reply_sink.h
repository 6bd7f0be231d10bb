// Receives the values in an ExchangeReply directly at their destination. Parses only the few bytes
// between pieces. The reader of the whole reply checks that the pieces are consistent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/rpc.h"

namespace paracord {

// Returns the destination of the bytes at `offset` of a partition, or nullptr if none are expected
// there. Called on a network thread.
using PiecePlaceFn = std::function<char*(uint32_t partition, uint64_t offset, uint64_t bytes)>;

std::shared_ptr<ReplySink> MakeExchangeSink(uint64_t bytes_max, PiecePlaceFn place);

}  // namespace paracord
