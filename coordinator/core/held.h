// Decides from the states of the partitions whether synchronous training can go on with what the ps
// hold, or all ps have to load a checkpoint. A state is a number of rounds (cuts.h). Pure
// functions: no record of which ps loaded what is needed. An interrupted rollback, ps that loaded
// two different checkpoints, and a round applied by only some partitions are all decided from the
// states alone.
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
  bool serves_before = false;  // the ps also has the values of `state` - 1
};

// Returns for people why all ps have to load a checkpoint; nullopt if training can go on. Training
// goes on if each partition of the job, of `partitions` in all, is held by some ps and has the
// values of the least state of any partition, as its current or its previous state. If several ps
// hold a partition, every copy has to serve that state.
std::optional<std::string> NeedsRollback(uint32_t partitions, std::span<const HeldPartition> held);

// Returns how many rounds of the job the partitions of a synchronous checkpoint contain.
uint64_t StateOfCut(const Manifest& manifest);

// Whether all of `partitions` have the values of `state`; false if there are none.
bool ServeAll(std::span<const HeldPartition> partitions, uint64_t state);

// Ps that go on together from one state.
struct CommonHolders {
  uint64_t state = 0;
  std::vector<bool> serves;  // index: ps
};

// Chooses which ps go on where partitions have several holders: a state is possible if each
// partition of the job, of `partitions` in all, is on a ps that serves the state, and the greatest
// possible state is taken. `held` has the partitions of each ps, none for a ps that takes no part.
// A ps serves a state if all its partitions have the state's values, since a push names every
// trained partition of a ps. nullopt: no possible state is as new as `least`, the state of the
// newest checkpoint.
std::optional<CommonHolders> ChooseHolders(uint32_t partitions,
                                           std::span<const std::vector<HeldPartition>> held,
                                           uint64_t least);

}  // namespace paracord
