// Whether training in rounds can go on from what the ps hold, or all of them have to load the
// newest cut. Pure functions; nobody has to remember which ps loaded what: an interrupted rollback,
// ps at two different cuts, and a round applied by only some partitions all get one answer from the
// states of the partitions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

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

}  // namespace paracord
