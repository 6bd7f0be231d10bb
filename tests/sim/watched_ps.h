// Forwards calls to a ps of a simulated cluster, and shows the oracles the state of the ps before
// and after each call. Owned by the process that owns the ps.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/gate.h"
#include "common/rpc.h"
#include "exchange/codec.h"
#include "server/parameter_server.h"
#include "sim/oracle.h"
#include "sim/rounds_oracle.h"
#include "sim/sync_oracle.h"
#include "sim/world/sim_world.h"

namespace paracord {

class WatchedPs : public Service {
 public:
  struct Oracles {
    SimWorld& world;
    Oracle& oracle;
    RoundsOracle& rounds;
    SyncOracle* sync;  // null unless the job is synchronous
  };
  WatchedPs(Oracles oracles, ParameterServer& ps) : oracles_(oracles), ps_(ps) {}

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

 private:
  class WatchedCall;
  void Loaded(const std::string& checkpoint);
  void Exchange(const absl::Cord& request, std::shared_ptr<ServerCall> call);
  void Exchanged(const WatchedCall& call, const DecodedRequest& request, bool came_before,
                 const Oracle::PsSeen& before, const Oracle::PsSeen& after);

  const Oracles oracles_;
  ParameterServer& ps_;
  std::shared_ptr<const PartitionSet> loaded_;
  const Gate gate_;
};

}  // namespace paracord
