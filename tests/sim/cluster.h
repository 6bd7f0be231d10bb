// A whole Paracord cluster in a simulated world: the real coordinator, ps and workers on simulated
// network, disks and clocks, and supervisors that restart dead processes. The world's Swarm injects
// faults. In addition, workers come late, a process gets SIGTERM, a second coordinator starts for
// the job, and a checkpoint is damaged. The world's seed determines every choice. Owned by a test.
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

// Everything about a cluster that a seed draws, except the Swarm.
struct ClusterPlan {
  uint32_t ps = 2;
  uint32_t workers = 2;
  uint32_t late_workers = 0;
  bool second_coordinator = false;
  bool damage = false;         // a checkpoint at rest is damaged
  bool staged_push = false;    // the worker pushes a gradient early, whatever its size
  bool reports_ahead = false;  // some progress reports reach the coordinator exaggerated
  int64_t drain_every_ms = 0;  // mean time between SIGTERMs; 0: never
  int64_t fault_ms = 10000;
  bool wait_for_workers = false;  // Run waits until workers that were not told of the end give up
  bool calm = false;              // one worker, no faults: batches arrive in the plan's order
  uint64_t epochs = 1;            // the job is done after this many epochs
  uint32_t resume_ps = 0;         // number of ps for one more epoch; 0: the job is not resumed
  uint32_t lanes = 0;             // lanes per epoch; 0: an epoch is cut into splits
  bool inventor = false;          // a worker reports batches that it was never given
  bool nodes = false;         // each worker's process holds a ps, the first one the coordinator too
  int64_t move_every_ms = 0;  // mean time between requests for another number of ps; 0: never
  uint64_t staleness = 0;     // bound on staleness with lanes, if the job is not synchronous
  std::vector<uint32_t> devices;  // per worker, cyclically; empty: one device each
  CountingOptions counting;
  Job job;

  static ClusterPlan Draw(SimRandom random);
  void DrawVariant(SimRandom& random);
  void DrawWire(SimRandom random);
  // Makes the trained variables tables if the optimizer allows tables.
  void MakeTables();
  void MakeGrowing(SimRandom random);
  void DrawDeltas(SimRandom random);  // draws how often a full checkpoint is written
  void DrawLanes(SimRandom random);
  void DrawSync(SimRandom random);
  void DrawDevices(SimRandom random);
  void DrawMoves(SimRandom random);
  void DrawCopies(SimRandom random);
  void MakeNodes();
  std::string ToString() const;
};

class SimCluster {
 public:
  SimCluster(SimWorld& world, ClusterPlan plan);
  ~SimCluster();

  // Runs under faults, heals, and runs on until the job is done and all processes have left.
  // Returns true if the oracles found no violation.
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
  std::unique_ptr<SyncOracle> sync_;  // null unless the job is synchronous
  Supervisor supervisor_;
  Nemesis nemesis_;
  std::vector<uint32_t> ps_places_;
  std::vector<uint32_t> worker_places_;
  uint32_t coordinator_place_ = 0;
  uint32_t second_place_ = 0;  // 0: never started
  bool second_lives_ = false;
  int64_t coordinators_ = 0;  // number of coordinators started
  bool healed_ = false;
  bool job_over_ = false;
};

struct SimKind {
  bool tables = false;    // the job has tables, if its optimizer allows tables
  bool objects = false;   // DIR is in an object store, not on a file system
  bool growing = false;   // tables grow; some seeds draw admission and expiry
  bool lanes = false;     // epochs are cut into lanes, with bounded staleness
  bool sync = false;      // epochs are cut into lanes, with synchronous rounds
  bool nodes = false;     // the cluster has no ps
  bool inventor = false;  // a worker reports batches that it was never given
  bool moves = false;     // the running job is moved to more and fewer ps
  bool copies = false;    // each partition has a second ps, which takes over when the first is lost
};

// Draws a cluster from `seed` and runs it to its end. Returns "", or the violation and how to
// reproduce it.
std::string RunSeed(uint64_t seed, uint64_t* trace_hash = nullptr, uint64_t* steps = nullptr,
                    SimKind kind = {});

}  // namespace paracord
