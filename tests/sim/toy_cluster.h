// A small cluster that tests the simulator. Clients send numbers until the server acknowledges
// each; the server counts each number once and stores its counts in a file. Like the real cluster,
// the toy promises that an acknowledged number is never lost and no number counts twice. Mutants
// break the promise in known ways, and the simulator must find every mutant.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "sim/world/nemesis.h"
#include "sim/world/sim_world.h"
#include "sim/world/supervisor.h"

namespace paracord {

enum class ToyMutant {
  kNone,
  kAckEarly,         // acknowledges before the file is durable
  kNoDirectorySync,  // forgets to sync the directory after the rename
  kCountTwice,       // counts a number again although it was counted before
  kForgetSession,    // never gives up a parked call
};

// What all processes observed. Survives their deaths.
struct ToyOracle {
  std::set<uint64_t> acknowledged;
  uint64_t counted_twice = 0;
};

class ToyCluster {
 public:
  ToyCluster(SimWorld& world, uint32_t clients, uint64_t numbers,
             ToyMutant mutant = ToyMutant::kNone);
  ~ToyCluster();

  // Runs under faults for `fault_ms`, heals, and runs on until every client is done. Returns true
  // if no violation was found.
  bool Run(int64_t fault_ms, int64_t heal_ms);
  const ToyOracle& oracle() const { return oracle_; }
  Supervisor& supervisor() { return supervisor_; }
  size_t sessions() const;  // calls parked at the server now
  uint32_t clients_done() const;

 private:
  class Server;
  class Client;

  SimWorld& world_;
  const uint32_t clients_;
  const uint64_t numbers_;
  const ToyMutant mutant_;
  ToyOracle oracle_;
  Supervisor supervisor_;
  Nemesis nemesis_;
};

}  // namespace paracord
