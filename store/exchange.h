// Runs one Exchange: validates a push completely before any byte changes, applies it partition by
// partition, and replies with references to the values. Any thread. It is not atomic over
// partitions, which is harmless because each has its own ledger. The door checks fences.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "exchange/codec.h"
#include "store/partition_set.h"

namespace paracord {

struct ExchangeCounters {
  std::atomic<uint64_t> duplicates{0};  // pushes of a partition dropped by its ledger
  std::atomic<uint64_t> refused{0};     // pushes refused whole
};

// INVALID_ARGUMENT names the partition and the reason, and nothing has changed. ABORTED: the push's
// generation ended before all partitions were updated.
absl::StatusOr<Parts> RunExchange(const Content& content, DecodedRequest request,
                                  ExchangeCounters& counters, const PushFence& fence = {});

}  // namespace paracord
