// The committed checkpoints of a job: which of them can be restored, and which are kept. Owned by
// the core, which adds each committed checkpoint, refuses a checkpoint that a ps cannot load, and
// removes the files of the checkpoints that Thin and MakeRoom return. Touches no file.
//
// Invariants: checkpoints are ordered, the newest first. A refused checkpoint is not restored. It
// is not removed either, because a person may know how to read it, and it does not count towards
// the number of checkpoints that are kept. An increment is a checkpoint of the changes since
// another one, its base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/checkpoint.h"

namespace paracord {

class Checkpoints {
 public:
  // `committed` is newest first. `refused` maps the name of each unreadable checkpoint to the
  // reason.
  Checkpoints(std::vector<Manifest> committed, std::map<std::string, std::string> refused);

  // The newest checkpoint, refused or not; null if there is none.
  const Manifest* newest() const { return committed_.empty() ? nullptr : &committed_.front(); }
  // The name of newest(); a default name if there is none.
  CheckpointName newest_name() const;
  const std::map<std::string, std::string>& refused() const { return refused_; }
  // The newest restorable checkpoint (one that is not refused); null if there is none.
  const Manifest* Usable() const;
  // Whether the named checkpoint exists and can be restored.
  bool Has(const std::string& name) const;
  // The newest restorable checkpoint in which every trained partition has entered exactly `batches`
  // batches; null if there is none.
  const Manifest* Holding(uint64_t batches) const;
  // The newest restorable checkpoint and its bases, newest first, if the next checkpoint may be
  // incremental: no base is missing or refused, and the list is shorter than `full_every` plus what
  // ContinueInstead allows. Empty: the next checkpoint has to be full.
  std::vector<std::string> Continued(size_t full_every) const;
  // Called when a full checkpoint was not written because the disk is full (`why` says so), and
  // MakeRoom found nothing to remove: the present chain of increments may grow by `full_every`
  // more, until a full checkpoint is committed. False if `why` is a different error, `full_every`
  // is 1, or no checkpoint can be extended.
  bool ContinueInstead(const std::string& why, size_t full_every);
  bool continues_instead() const { return more_links_ > 0; }
  // The base `name` of the next checkpoint is gone: refuses this base and every checkpoint of
  // `chain` that is built on it.
  void Lose(const std::string& name, const std::vector<std::string>& chain);
  // Whether the job has had checkpoints and none of them can be restored: creating the partitions
  // anew would silently lose all training. `committed_ever`: how many job.state counts.
  bool Lost(uint64_t committed_ever) const;
  // Explains Lost for the job in `dir`, with what a person can do.
  std::string LostReason(const std::string& dir, uint64_t committed_ever) const;
  // The fewest batches that any trained partition has entered in any checkpoint, at most `batches`;
  // 0 if there are no checkpoints. A restore may take the job back that far.
  uint64_t LeastEntered(uint64_t batches) const;

  void Refuse(const std::string& name, const std::string& why) { refused_.emplace(name, why); }
  // The storage does not say whether this checkpoint was committed: it is refused until the next
  // coordinator finds it committed or missing.
  void Doubt(const std::string& name, const std::string& why);
  bool doubted() const { return doubted_; }
  // Adds a committed checkpoint, which need not be the newest.
  void Add(Manifest manifest);

  // Forgets the checkpoints beyond the retention policy and returns their names, each increment
  // before its base. Kept are the newest `keep`, the newest with only finite values, `best` (of the
  // best evaluation), those `in_use` by a ps, the refused ones, and the bases of all these. If
  // `keep` is above 1, the newest checkpoint is an increment and the kept ones have only one full
  // checkpoint, which may be damaged, a second full checkpoint is kept. Of successive checkpoints
  // with equal contents only the newest counts, so restarts without progress evict none.
  std::vector<std::string> Thin(size_t keep, const std::string& best,
                                const std::vector<std::string>& in_use = {});
  // After a write failed with `why` because the disk is full: forgets as few of the oldest
  // checkpoints as possible (an increment keeps its bases), and returns their names. A newer
  // checkpoint is worth more than the number kept. Returns no names if `why` is a different error.
  // The newest restorable checkpoint always stays.
  std::vector<std::string> MakeRoom(const std::string& why, const std::string& best);

 private:
  const Manifest* Find(const std::string& name) const;  // null if there is none
  // Returns the name of the base of the checkpoint `name`; "" if there is none. An unreadable
  // checkpoint is assumed to be based on the next older checkpoint, readable or not.
  std::string BaseOf(const std::string& name) const;
  // Returns the named checkpoints and all their bases.
  std::set<std::string> WithChains(const std::set<std::string>& names) const;
  // The newest restorable full checkpoint outside `kept`; null if there is none.
  const Manifest* OtherFull(const std::set<std::string>& kept) const;
  bool Refused(const Manifest& manifest) const;

  std::vector<Manifest> committed_;
  std::map<std::string, std::string> refused_;
  bool doubted_ = false;   // a checkpoint was refused by Doubt
  size_t more_links_ = 0;  // what ContinueInstead adds to full_every
};

}  // namespace paracord
