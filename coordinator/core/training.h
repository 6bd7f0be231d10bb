// The epoch in training: its splits, and the splits for which a push may still be in flight. Owned
// by the core, which opens an epoch, and closes it when the ledgers of all partitions have all of
// its batches.
//
// Invariants: at most one epoch is open, and all ledgers have the epochs before closed(). A split
// is abandoned from Abandon until a new generation fences its pushes, or an epoch opens.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/core/job_extent.h"
#include "coordinator/core/split_table.h"

namespace paracord {

// An epoch of which some partition lacks a batch, and for each split the first missing batch.
struct OpenEpoch {
  uint64_t epoch = 0;
  std::vector<uint32_t> next;
};

class Training {
 public:
  // The splits of the open epoch; null if none is open.
  SplitTable* table() { return table_.has_value() ? &*table_ : nullptr; }
  const SplitTable* table() const { return table_.has_value() ? &*table_ : nullptr; }
  bool IsOpen(uint64_t epoch) const { return table_.has_value() && table_->epoch() == epoch; }
  // How many epochs are done: the ledgers have all of their batches.
  uint64_t closed() const { return closed_; }

  // The first epoch that is not done by `ledgers`; the number of epochs if all are done.
  OpenEpoch FirstOpen(const std::vector<const Ledger*>& ledgers, const DataPlan& plan,
                      const JobExtent& extent) const;

  // All ledgers have all epochs before `epoch`. True if that differs from closed().
  bool CloseBefore(uint64_t epoch);
  void Open(const OpenEpoch& open, uint64_t batches, const DataPlan& plan);
  // Closes the open epoch.
  void Close() { table_.reset(); }

  // After a restore: the batches below `batches` (counted across epochs) had been reported as
  // computed, and those that the ledgers lack are computed again.
  void GoesAgainTo(uint64_t batches) { again_to_ = batches; }
  // The `batches` of the newest GoesAgainTo; 0: none.
  uint64_t again_to() const { return again_to_; }

  // A push for this split may be in flight that no lease shows.
  void Abandon(uint64_t split) { abandoned_.insert(split); }
  // A new generation has begun, which fences every push in flight.
  void Fenced() { abandoned_.clear(); }
  // Whether a push for this split may be in flight: the split is leased or abandoned.
  bool MayBePushed(uint64_t split) const;
  // Ends the leases of a session except those in `held`, abandons the splits of the ended leases,
  // and returns these leases.
  std::vector<LeaseState> EndSession(uint64_t session, const std::set<uint64_t>& held = {});

 private:
  std::optional<SplitTable> table_;
  uint64_t closed_ = 0;
  uint64_t again_to_ = 0;
  std::set<uint64_t> abandoned_;  // splits of the open epoch
};

}  // namespace paracord
