// Checks bounded staleness in a simulated cluster: no ps sends values that lack a round for which
// the reader waits, and no ps applies a gradient computed on values staler than the job allows.
// Counts batches and lanes independently of config/data_plan.h, which the daemons use. Owned by
// SimCluster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"
#include "sim/oracle.h"

namespace paracord {

// Returns how many batches a lane of an epoch has.
uint64_t BatchesOfLane(const DataPlan& plan, uint64_t lane);
// Returns how many rounds of the job a ledger has, or nullopt if it has part of a further round.
std::optional<uint64_t> WholeRounds(const DataPlan& plan, const Ledger& ledger);
// Returns a sentence about the first lane that lacks one of the first `state` rounds of the job, or
// "".
std::string LaneBehind(const DataPlan& plan, const Ledger& ledger, uint64_t state);

class RoundsOracle {
 public:
  // Checks nothing if `plan` has no lanes.
  RoundsOracle(SimWorld& world, DataPlan plan, uint64_t staleness)
      : world_(world), plan_(std::move(plan)), staleness_(staleness) {}

  // Called when a ps answers an exchange. `now` is the state of the ps.
  void Answered(const ExchangeRequest& request, const absl::StatusOr<ExchangeReply>& answer,
                const Oracle::PsSeen& now);

 private:
  void CheckPulled(const ExchangeRequest& request, const ExchangeReply& reply,
                   const Oracle::PsSeen& now);
  void CheckPushed(const ExchangeRequest& request, const ExchangeReply& reply);

  // By partition: the ledger of the values that a worker was given last.
  using Given = std::map<uint32_t, Ledger>;

  SimWorld& world_;
  const DataPlan plan_;
  const uint64_t staleness_;
  // Key: worker, boot id, generation. A worker that asked for no state gets values of any age.
  std::map<std::string, Given> given_;
};

}  // namespace paracord
