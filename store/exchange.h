// One Exchange: checks a push whole before any byte changes, applies it partition by partition, and
// answers with references to the values. Any thread; fences are the door's. Not atomic over
// partitions: each has its own ledger, which is what makes that harmless.
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

// INVALID_ARGUMENT names the partition and the reason, and nothing has changed. ABORTED: its
// generation ended before all was entered.
absl::StatusOr<Parts> RunExchange(const Content& content, DecodedRequest request,
                                  ExchangeCounters& counters, const PushFence& fence = {});

}  // namespace paracord
