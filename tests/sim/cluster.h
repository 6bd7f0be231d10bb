// A whole Paracord cluster in a simulated world: the real coordinator, ps and workers on the
// world's network, disks and clocks, and supervisors that restart dead processes. The world's swarm
// has the faults. Beyond those, workers come late, somebody gets SIGTERM, a second coordinator
// starts for the job, and a checkpoint is damaged. All of it is drawn from the world's seed. Owned
// by a test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/counting_workload.h"
#include "sim/oracle.h"
#include "sim/rounds_oracle.h"
#include "sim/sync_oracle.h"
#include "sim/watched_ps.h"
#include "sim/world/nemesis.h"
#include "sim/world/sim_world.h"
#include "sim/world/supervisor.h"

namespace paracord {

// The choices that a seed draws, besides the swarm.
struct ClusterPlan {
  uint32_t ps = 2;
  uint32_t workers = 2;
  uint32_t late_workers = 0;
  bool second_coordinator = false;
  bool damage = false;         // of a checkpoint at rest
  bool early_push = false;     // whatever the size of gradients
  bool reports_ahead = false;  // some reports of progress reach the coordinator exaggerated
  int64_t drain_every_ms = 0;  // SIGTERM to somebody; 0: never
  int64_t fault_ms = 10000;
  bool wait_for_workers = false;  // until those that nobody told have given up
  bool calm = false;              // one worker and no faults: the batches come in their order
  uint64_t epochs = 1;            // after which it is done
  uint32_t resume_ps = 0;         // then it is given one more epoch and so many ps; 0: it is not
  uint32_t lanes = 0;             // of an epoch; 0: it is cut into splits
  bool inventor = false;   // a worker tells of batches that it was never given (sim/inventor.h)
  bool nodes = false;      // each ps is in the process of a worker, the first with the coordinator
  int64_t move_every_ms = 0;  // somebody asks for another number of ps; 0: never
  uint64_t staleness = 0;  // with lanes, where the job is not synchronous
  std::vector<uint32_t> devices;  // of the workers, by turns; none: one each
  CountingOptions counting;
  Job job;

  static ClusterPlan Draw(SimRandom random);
  void DrawVariant(SimRandom& random);
  void DrawWire(SimRandom random);
  // Lets rows travel, where the optimizer allows it.
  void MakeTables();
  void MakeGrowing(SimRandom random);
  void DrawDeltas(SimRandom random);  // how many checkpoints go on from others
  void DrawLanes(SimRandom random);
  void DrawSync(SimRandom random);
  void DrawDevices(SimRandom random);
  void DrawMoves(SimRandom random);
  void MakeNodes();
  std::string ToString() const;
};

class SimCluster {
 public:
  SimCluster(SimWorld& world, ClusterPlan plan);
  ~SimCluster();

  // Runs under faults, heals, and runs on until the job is done and everybody has left. Returns
  // true if nothing was found wrong.
  bool Run();

 private:
  class Ps;
  class Liar;
  class Chief;
  class Trainer;
  class Both;
  class Fraud;

  void AddAll();
  WatchedPs::Oracles Oracles();
  uint32_t AddNode(uint32_t index);
  uint32_t AddPs(uint32_t index);
  uint32_t AddCoordinator(uint32_t number);
  uint32_t AddWorker();
  uint32_t DevicesOf(uint32_t worker) const;
  bool MayRestart(uint32_t place, int exit_code);
  void StartFaults();
  void AfterMs(int64_t delay_ms, const char* label, std::function<void()> fn);
  bool LieNow();
  void DrainSomebody();
  void MoveSomewhere();
  void StartSecond();
  void DamageNewest();
  void Heal();
  void GoOn();
  bool RunUntilOver(int64_t end_ms);
  bool Over() const;
  std::string Missing() const;

  SimWorld& world_;
  ClusterPlan plan_;
  SimRandom chance_;
  Oracle oracle_;
  RoundsOracle rounds_;
  std::unique_ptr<SyncOracle> sync_;  // null: the job is not synchronous
  Supervisor supervisor_;
  Nemesis nemesis_;
  std::vector<uint32_t> ps_places_;
  std::vector<uint32_t> worker_places_;
  uint32_t coordinator_place_ = 0;
  uint32_t second_place_ = 0;  // 0: never started
  bool second_lives_ = false;
  int64_t coordinators_ = 0;  // that were started
  bool healed_ = false;
  bool job_over_ = false;
};

struct SimKind {
  bool tables = false;    // the job has tables, where its optimizer allows them
  bool objects = false;   // DIR is in an object store, not on a file system
  bool growing = false;   // these tables grow, in some seeds with admission and expiry
  bool lanes = false;     // epochs are cut into lanes, with bounded staleness
  bool sync = false;      // or with synchronous rounds
  bool nodes = false;     // the cluster has no ps
  bool inventor = false;  // a worker tells of batches that it was never given
  bool moves = false;     // the running job is moved to more and fewer ps
};

// Runs one seed from its draw to its end. Returns "", or the fault that was found and how to see it
// again.
std::string RunSeed(uint64_t seed, uint64_t* trace_hash = nullptr, uint64_t* steps = nullptr,
                    SimKind kind = {});

}  // namespace paracord
