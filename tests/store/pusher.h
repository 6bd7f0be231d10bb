// Pushes lanes to a partition with rounds, for tests.
#pragma once

#include <atomic>
#include <vector>

#include "tests/store/sync_partitions.h"

namespace paracord {

struct Pusher {
  explicit Pusher(SyncKind of, const DataPlan& with, bool keeps_before = true,
                  const NormClip& clip = {})
      : kind(std::move(of)), plan(with), partition(kind, plan, /*sync=*/true, keeps_before, clip) {}

  Outcome Push(uint64_t state, uint32_t lane, const SyncLane& what) {
    const uint64_t rounds = RoundsPerEpoch(plan);
    const auto batch =
        FindBatch(plan, BatchOf(state / rounds, lane, static_cast<uint32_t>(state % rounds)));
    const PartitionUpdate update =
        what.rejected ? PartitionUpdate() : UpdateOf(kind, what.gradient);
    return partition->Push(*batch, what.rejected, update, PushFence(newest, generation));
  }
  void PushAll(uint64_t state, const std::vector<SyncLane>& lanes) {
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) Push(state, lane, lanes[lane]);
  }

  const SyncKind kind;
  const DataPlan plan;
  SyncPartition partition;
  std::atomic<uint64_t> newest = 1;
  uint64_t generation = 1;
};

}  // namespace paracord
