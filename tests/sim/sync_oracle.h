// Checks synchronous training in a simulated cluster, to the last bit: what ps hold, hand out and
// write is what SyncReference has after some number of rounds, whatever happened to the cluster.
// Owned by SimCluster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exchange/codec.h"
#include "exchange/encoding.h"
#include "proto/paracord.pb.h"
#include "sim/oracle.h"
#include "sim/sync_reference.h"

namespace paracord {

class SyncOracle {
 public:
  SyncOracle(SimWorld& world, const Job& job, const CountingOptions& counting, const DataPlan& plan)
      : world_(world),
        plan_(plan),
        wire_(EncodingOfWire(job.wire)),
        reference_(world.storage(), job, counting, plan) {}

  // Called when a push comes to a ps. Returns whether each of its lanes has come to this life of
  // the ps before, in the same generation: only then may it be in the sum of a round already.
  bool CameBefore(const ExchangeRequest& header);
  // Called when a ps has entered what an exchange of its generation pushes, and holds `now`.
  void CheckHeld(uint64_t generation, const Oracle::PsSeen& now);
  // Called when an exchange is answered. `came_before` is what CameBefore said of its push, and
  // `entered` what the ps held when the push was entered.
  void Answered(const ExchangeRequest& header, const absl::StatusOr<StepRequest>& step,
                const absl::StatusOr<DecodedReply>& answer, bool came_before,
                const Oracle::PsSeen& entered);
  // Called for each new checkpoint.
  void CheckCheckpoint(const std::string& name, const std::vector<StoredTensors>& stored,
                       const Oracle::Grown& grown);
  // Called at the job's end: each evaluation is of the values at the end of its epoch.
  void CheckEvaluations(const nlohmann::json& summary);

 private:
  void CheckKnown(const BatchId& batch, const ExchangeReply& reply, const Oracle::PsSeen& entered);
  void CheckPulled(uint64_t state, const StepRequest& step, const DecodedReply& reply);
  // Compares values and count of updates with those of a state. Returns "", or how they differ.
  std::string Difference(uint32_t partition, uint64_t state, uint64_t updates,
                         const std::vector<float>& values);

  struct Held {
    uint64_t generation = 0;
    uint64_t state = 0;
  };

  SimWorld& world_;
  const DataPlan plan_;
  const Encoding wire_;
  SyncReference reference_;
  std::map<uint32_t, Held> held_;  // by partition, when it was seen last
  std::set<std::string> came_;     // pushes of lanes, by life of the ps and generation
};

}  // namespace paracord
