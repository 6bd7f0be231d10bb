// Whether training in rounds can go on from what the ps hold, or all of them have to load the
// newest cut. Pure functions; nobody has to remember which ps loaded what: a rollback that is half
// done, ps that loaded two cuts, and a round that some partitions have applied and others have not
// are the same question.
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

// Says for people why all ps have to load one cut; nullopt if training can go on, because each of
// the job's `partitions` is held and serves the least state of all: that is its state, or the one
// before, which it has kept. One that several ps hold has to do so on each.
std::optional<std::string> NeedsRollback(uint32_t partitions, std::span<const HeldPartition> held);

}  // namespace paracord
