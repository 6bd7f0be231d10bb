#include "coordinator/core/table_rates.h"

namespace paracord {
namespace {

constexpr int64_t kRateWindowMs = 3000;

}  // namespace

void TableRates::Take(const PsDescription& description, int64_t now_ms) {
  for (const PartitionDescription& partition : description.partitions()) {
    if (!partition.has_table()) continue;
    const uint64_t pulled = partition.table().pulled(), pushed = partition.table().pushed();
    const auto [at, made] = windows_.try_emplace(partition.id());
    Window& window = at->second;
    if (made || pulled < window.pulled || pushed < window.pushed) {
      window = {.since_ms = now_ms, .pulled = pulled, .pushed = pushed};
      continue;
    }
    const int64_t length_ms = now_ms - window.since_ms;
    if (length_ms < kRateWindowMs) continue;
    const auto a_second = [&](uint64_t rows) {
      return static_cast<double>(rows) * 1000 / static_cast<double>(length_ms);
    };
    window = {.since_ms = now_ms,
              .pulled = pulled,
              .pushed = pushed,
              .rate = {a_second(pulled - window.pulled), a_second(pushed - window.pushed)}};
  }
}

TableRates::Rate TableRates::Of(uint32_t partition) const {
  const auto found = windows_.find(partition);
  return found == windows_.end() ? Rate() : found->second.rate;
}

}  // namespace paracord
