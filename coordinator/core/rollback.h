// What the ps of a synchronous job begin a generation with: every ps keeps its partitions, or all
// ps load one checkpoint, save perhaps those that serve its state already. The checkpoint is chosen
// once, so all ps load the same checkpoint even if a newer one is committed meanwhile. Owned by the
// core, which decides when all ps have been adopted (held.h). It emits nothing itself.
//
// Invariants: a generation decides at most once. What was wanted stays wanted, through generations
// that end before all ps are ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paracord {

class Rollback {
 public:
  // All ps are to load a checkpoint, whatever they hold, because of `why`.
  void Want(std::string why) { wanted_ = std::move(why); }
  // Why; empty if what they hold decides.
  const std::string& wanted() const { return wanted_; }

  void BeginGeneration() {
    decided_ = lacks_checkpoint_ = false;
    from_.reset();
    keep_.clear();
  }
  // The decision: each ps goes on with what it holds.
  void GoOn() { decided_ = true; }
  // The decision: all load this checkpoint, or create their partitions if it is empty. Those in
  // `keep`, by ps, go on with what they hold, which is of the checkpoint's state.
  void LoadAll(std::string checkpoint, std::vector<bool> keep = {}) {
    decided_ = true;
    from_ = std::move(checkpoint);
    keep_ = std::move(keep);
  }
  bool decided() const { return decided_; }
  // What all load; nullopt if each goes on with what it holds.
  const std::optional<std::string>& from() const { return from_; }
  // Whether this ps goes on with what it holds.
  bool Keeps(uint32_t ps) const { return !from_.has_value() || (ps < keep_.size() && keep_[ps]); }

  // All would have to load a checkpoint, and none that there was can be restored.
  void LackCheckpoint() { lacks_checkpoint_ = true; }
  bool lacks_checkpoint() const { return lacks_checkpoint_; }

  // All ps are ready.
  void Done() { wanted_.clear(); }

 private:
  std::string wanted_;
  bool decided_ = false;
  bool lacks_checkpoint_ = false;
  std::optional<std::string> from_;
  std::vector<bool> keep_;  // by ps; empty: none
};

}  // namespace paracord
