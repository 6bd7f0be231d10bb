// Decides from the states of the partitions whether synchronous training can go on with what the ps
// hold, or all ps have to load the newest checkpoint. Pure functions: nobody remembers which ps
// loaded what. An interrupted rollback, ps that loaded two different checkpoints, and a round
// applied by only some partitions are all decided from the states alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/checkpoint.h"

namespace paracord {

// A partition as its ps describes it.
struct HeldPartition {
  uint32_t id = 0;
  bool trained = true;         // an untrained partition serves every state
  uint64_t state = 0;          // how many rounds of the job its values contain
  bool serves_before = false;  // its ps has kept the values of the previous state, too
};

// Returns for people why all ps have to load a checkpoint; nullopt if training can go on. Training
// goes on if each partition of the job, of `partitions` in all, is held by some ps and can serve
// the least state of any partition, as its current or its previous state. If several ps hold a
// partition, every copy has to serve that state.
std::optional<std::string> NeedsRollback(uint32_t partitions, std::span<const HeldPartition> held);

// Returns the state that a checkpoint of a synchronous job holds, in rounds.
uint64_t StateOfCut(const Manifest& manifest);

// Whether all of `partitions` can serve the state; false if there are none.
bool ServeAll(std::span<const HeldPartition> partitions, uint64_t state);

// Ps that go on together from one state.
struct CommonHolders {
  uint64_t state = 0;
  std::vector<bool> serves;  // index: ps
};

// Chooses which ps go on where partitions have several holders: a state is possible if each
// partition of the job, of `partitions` in all, has a ps that serves it, and the greatest possible
// state is taken. `held` has the partitions of each ps, empty for a ps that takes no part. A ps
// serves a state if all its partitions do, since a push names every trained partition of a ps.
// nullopt: no possible state is as new as `least`, the state of the newest checkpoint.
std::optional<CommonHolders> ChooseHolders(uint32_t partitions,
                                           std::span<const std::vector<HeldPartition>> held,
                                           uint64_t least);

}  // namespace paracord
