// Whether training in rounds can go on from what the ps hold, or all of them have to load the
// newest cut. Pure functions; nobody has to remember which ps loaded what: an interrupted rollback,
// ps at two different cuts, and a round applied by only some partitions all get one answer from the
// states of the partitions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/checkpoint.h"

namespace paracord {

// A partition as the ps that holds it describes it.
struct HeldPartition {
  uint32_t id = 0;
  bool trained = true;         // one that is not trained is of every state
  uint64_t state = 0;          // the rounds that it has applied
  bool serves_before = false;  // it has the values of the state before, too
};

// Says for people why all ps have to load one cut; nullopt if training can go on, because every one
// of the job's `partitions` is held and can serve the least state of any partition, either as its
// current state or as the previous state, which a partition keeps. If several ps hold a partition,
// every copy has to.
std::optional<std::string> NeedsRollback(uint32_t partitions, std::span<const HeldPartition> held);

// Returns the state that a checkpoint of a synchronous job holds.
uint64_t StateOfCut(const Manifest& manifest);

// Whether all these partitions can serve the state; false if there are none.
bool ServeAll(std::span<const HeldPartition> partitions, uint64_t state);

// Ps that go on together from one state.
struct CommonHolders {
  uint64_t state = 0;
  std::vector<bool> serves;  // by ps
};

// Chooses who goes on where partitions have several holders: the ps that serve the greatest state
// which, for every one of the job's `partitions`, some ps serves. `held` has the partitions of each
// ps, none of one that takes no part. A ps serves a state if all its partitions do, since a push
// names every trained partition of a ps. nullopt: there is no such state, or only older ones than
// `least`, the state of the newest checkpoint.
std::optional<CommonHolders> ChooseHolders(uint32_t partitions,
                                           std::span<const std::vector<HeldPartition>> held,
                                           uint64_t least);

}  // namespace paracord
