// The epoch that is trained: its splits, and which of them a push may still be under way for. Owned
// by the core, which opens an epoch and closes it by what the ledgers of all partitions say.
//
// Invariants: at most one epoch is open, and all before closed() are done by the ledgers. A split
// that a lease was lost of stays abandoned until a new generation keeps its pushes out, or until
// the next epoch opens.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/core/job_extent.h"
#include "coordinator/core/split_table.h"

namespace paracord {

// An epoch that some partition lacks a batch of, and for each of its splits the first such batch.
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
  // How many epochs are done.
  uint64_t closed() const { return closed_; }

  // The first epoch that is not done by these ledgers; the one behind the last if all are.
  OpenEpoch FirstOpen(const std::vector<const Ledger*>& ledgers, const DataPlan& plan,
                      const JobExtent& extent) const;

  // All epochs before this one are done. True if that is new.
  bool CloseBefore(uint64_t epoch);
  void Open(const OpenEpoch& open, uint64_t batches, const DataPlan& plan);
  // No epoch is open any more.
  void Close() { table_.reset(); }

  // A restore took batches back: those up to this number, which were done before, are computed
  // again.
  void GoesAgainTo(uint64_t batches) { again_to_ = batches; }
  uint64_t again_to() const { return again_to_; }

  // A push of this split may be under way, of a worker that nobody hears of.
  void Abandon(uint64_t split) { abandoned_.insert(split); }
  // A new generation keeps out whatever was under way.
  void Fenced() { abandoned_.clear(); }
  // Whether a push of this split may be under way.
  bool MayBePushed(uint64_t split) const;
  // Ends the leases of a session, all but those in `held`, and abandons their splits.
  std::vector<LeaseState> EndSession(uint64_t session, const std::set<uint64_t>& held = {});

 private:
  std::optional<SplitTable> table_;
  uint64_t closed_ = 0;
  uint64_t again_to_ = 0;
  std::set<uint64_t> abandoned_;  // splits of the open epoch
};

}  // namespace paracord
