// Runs a seed from its draw to its end.
#include "absl/strings/str_cat.h"
#include "sim/cluster.h"
#include "sim/world/coverage.h"

namespace paracord {

std::string RunSeed(uint64_t seed, uint64_t* trace_hash, uint64_t* steps, SimKind kind) {
  SimWorld world(seed);
  world.storage().objects().used = kind.objects;
  ClusterPlan plan = ClusterPlan::Draw(world.Fork(8));
  plan.DrawWire(world.Fork(9));
  if (kind.tables) plan.MakeTables();
  if (kind.growing) plan.MakeGrowing(world.Fork(10));
  if (kind.tables || kind.growing) plan.DrawDeltas(world.Fork(11));
  if (kind.lanes) plan.DrawLanes(world.Fork(12));
  if (kind.sync) plan.DrawSync(world.Fork(13));
  if (kind.sync) plan.DrawDevices(world.Fork(14));
  if (kind.nodes) plan.MakeNodes();
  if (kind.moves) plan.DrawMoves(world.Fork(15));
  if (kind.copies) plan.DrawCopies(world.Fork(17));
  // A failed batch would be kept for a retry by the inventor, which never asks for a lease.
  plan.inventor = kind.inventor && !plan.calm && plan.job.failures.rejected_max == 0;
  SimCluster cluster(world, plan);
  const Coverage coverage;
  bool right = cluster.Run();
  if (right && coverage.Missing("coordinator.rollback.stuck").empty()) {
    world.Violation("a state that was still needed was lost");
    right = false;
  }
  if (trace_hash != nullptr) *trace_hash = world.trace().hash();
  if (steps != nullptr) *steps += world.steps();
  if (right) return "";
  return absl::StrCat(
      kind.sync    ? "PARACORD_SIM_LANES=2 "
      : kind.lanes ? "PARACORD_SIM_LANES=1 "
                   : "",
      kind.growing  ? "PARACORD_SIM_TABLES=2 "
      : kind.tables ? "PARACORD_SIM_TABLES=1 "
                    : "",
      kind.objects ? "PARACORD_SIM_OBJECTS=1 " : "", kind.nodes ? "PARACORD_SIM_NODES=1 " : "",
      kind.moves ? "PARACORD_SIM_MOVES=1 " : "", kind.copies ? "PARACORD_SIM_COPIES=1 " : "",
      kind.inventor ? "PARACORD_SIM_INVENTOR=1 " : "", "PARACORD_SIM_SEED=", seed,
      " bin/sim_test \"one seed of the cluster\"\n", plan.ToString(), "\n", world.Report());
}

}  // namespace paracord
