// Checks bounded staleness in a simulated cluster: no ps hands out values that lack a round which
// their reader waits for, and no gradient is applied whose worker had older values from that ps
// when it pushed than the job allows. The batches of lanes are counted here one by one, apart from
// what coordinator, ps and workers ask (config/data_plan.h). Owned by SimCluster.
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
// Returns how many rounds of the job a ledger has, if it has no part of another one.
std::optional<uint64_t> WholeRounds(const DataPlan& plan, const Ledger& ledger);
// Returns "", or the lane that lacks a batch of the first `state` rounds of the job.
std::string LaneBehind(const DataPlan& plan, const Ledger& ledger, uint64_t state);

class RoundsOracle {
 public:
  // Without lanes in the plan nothing is checked.
  RoundsOracle(SimWorld& world, DataPlan plan, uint64_t staleness)
      : world_(world), plan_(std::move(plan)), staleness_(staleness) {}

  // Called when an exchange is answered. The ps holds `now`.
  void Answered(const ExchangeRequest& request, const absl::StatusOr<ExchangeReply>& answer,
                const Oracle::PsSeen& now);

 private:
  void CheckPulled(const ExchangeRequest& request, const ExchangeReply& reply,
                   const Oracle::PsSeen& now);
  void CheckPushed(const ExchangeRequest& request, const ExchangeReply& reply);

  // The ledgers of the values that a worker was last given, by partition.
  using Given = std::map<uint32_t, Ledger>;

  SimWorld& world_;
  const DataPlan plan_;
  const uint64_t staleness_;
  // By worker, life of the ps and generation. Who asked for no state has values of any age.
  std::map<std::string, Given> given_;
};

}  // namespace paracord
