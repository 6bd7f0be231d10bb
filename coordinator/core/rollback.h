// The decision at the start of each generation of a synchronous job about what the ps begin with:
// every ps keeps its partitions, or all ps load one checkpoint, except perhaps ps that hold the
// checkpoint's state (the same number of rounds) already. In a job with copies the core first
// leaves ps without the common state out of the layout (held.h). The checkpoint is chosen once in a
// generation, so all ps load the same one even if a newer one is committed meanwhile. Owned by the
// core, which decides once all needed ps that are not away have been adopted. Does no I/O.
//
// Invariants: a generation decides at most once. A wanted rollback stays wanted, through
// generations that end before all ps are ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paracord {

class Rollback {
 public:
  // Wants all ps to load a checkpoint, whatever states they hold; `why` is the reason for people.
  void Want(std::string why) { wanted_ = std::move(why); }
  // Why a rollback is wanted; empty: none is wanted.
  const std::string& wanted() const { return wanted_; }

  void BeginGeneration() {
    decided_ = lacks_checkpoint_ = false;
    from_.reset();
    keep_.clear();
  }
  // Decides that each ps keeps its partitions.
  void GoOn() { decided_ = true; }
  // Decides that all ps load `checkpoint`, or create their partitions if it is "". The ps in `keep`
  // (by index) hold the checkpoint's state already, and keep their partitions.
  void LoadAll(std::string checkpoint, std::vector<bool> keep = {}) {
    decided_ = true;
    from_ = std::move(checkpoint);
    keep_ = std::move(keep);
  }
  bool decided() const { return decided_; }
  // The checkpoint that the ps load ("": they create partitions); nullopt if each ps keeps its
  // partitions.
  const std::optional<std::string>& from() const { return from_; }
  // Once decided: whether this ps keeps its partitions.
  bool Keeps(uint32_t ps) const { return !from_.has_value() || (ps < keep_.size() && keep_[ps]); }

  // All ps would have to load a checkpoint, and no checkpoint of the job can be restored.
  void LackCheckpoint() { lacks_checkpoint_ = true; }
  bool lacks_checkpoint() const { return lacks_checkpoint_; }

  // All ps are ready: the wanted rollback, if any, is done.
  void Done() { wanted_.clear(); }

 private:
  std::string wanted_;
  bool decided_ = false;
  bool lacks_checkpoint_ = false;
  std::optional<std::string> from_;
  std::vector<bool> keep_;  // index: ps; empty: every ps loads
};

}  // namespace paracord
