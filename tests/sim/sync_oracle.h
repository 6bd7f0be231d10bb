// Checks synchronous training in a simulated cluster to the last bit: values that a ps holds, sends
// or stores must equal a state of SyncReference. Owned by SimCluster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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

  // Called when a push arrives at a ps. Returns whether this life of the ps has received every lane
  // of the push before, in this generation. Otherwise no open sum can contain the batch.
  bool CameBefore(const ExchangeRequest& header);
  // Called when a life of a ps has entered the push of an exchange of its generation. `now` is the
  // ps after it.
  void CheckHeld(const std::string& boot_id, uint64_t generation, const Oracle::PsSeen& now);
  // Called when a ps answers an exchange. `came_before` is the result of CameBefore for the push,
  // `entered` the state of the ps after the push.
  void Answered(const ExchangeRequest& header, const absl::StatusOr<StepRequest>& step,
                const absl::StatusOr<DecodedReply>& answer, bool came_before,
                const Oracle::PsSeen& entered);
  // Called for each new checkpoint.
  void CheckCheckpoint(const std::string& name, const std::vector<StoredTensors>& stored,
                       const Oracle::Grown& grown);
  // Called at the job's end. Checks that each evaluation scored the values at the end of its epoch.
  void CheckEvaluations(const nlohmann::json& summary);

 private:
  void CheckKnown(const BatchId& batch, const ExchangeReply& reply, const Oracle::PsSeen& entered);
  void CheckPulled(uint64_t state, const StepRequest& step, const DecodedReply& reply);
  // Compares values and update count with those of round `state`. Returns the difference, or "".
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
  // The last seen state of each partition in each of its holders, by boot id and partition.
  std::map<std::pair<std::string, uint32_t>, Held> held_;
  std::set<std::string> came_;  // pushed lanes, by life of the ps and generation
};

}  // namespace paracord
