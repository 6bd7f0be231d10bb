// The checkpoints of a job that are committed in DIR: which can be restored, and which are kept.
// Owned by the core, which adds each committed checkpoint, refuses a checkpoint that a ps cannot
// load, and removes the files of the checkpoints returned by Thin and MakeRoom. Pure: it touches no
// file.
//
// Invariants: the newest is first. A checkpoint that was refused is neither restored nor removed,
// and counts for none of those that are kept: somebody may know how to read it.
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
  // `committed` is newest first. `refused` has those that cannot be read, with why, by name.
  Checkpoints(std::vector<Manifest> committed, std::map<std::string, std::string> refused);

  // The newest one, refused or not; null if there is none.
  const Manifest* newest() const { return committed_.empty() ? nullptr : &committed_.front(); }
  // Its name; that of no checkpoint if there is none.
  CheckpointName newest_name() const;
  const std::map<std::string, std::string>& refused() const { return refused_; }
  // The newest one that can be restored; null if there is none.
  const Manifest* Usable() const;
  // Whether the one of this name is there, and can be restored.
  bool Has(const std::string& name) const;
  // The newest one that can be restored and holds exactly so many batches; null if there is none.
  const Manifest* Holding(uint64_t batches) const;
  // The newest restorable checkpoint and its bases, if the next checkpoint may be incremental: the
  // chain is complete and shorter than `full_every`. Empty: the next checkpoint has to be full.
  std::vector<std::string> Continued(size_t full_every) const;
  // A full checkpoint was not written because the disk is full, and MakeRoom found nothing to
  // remove: as many as make a chain continue the newest one instead, until a full one is committed.
  // Returns false if `why` says something else, or if there is none that can be continued.
  bool ContinueInstead(const std::string& why, size_t full_every);
  bool continues_instead() const { return more_links_ > 0; }
  // The base `name` of the next checkpoint is gone: refuses it and every checkpoint of `chain`
  // built on it.
  void Lose(const std::string& name, const std::vector<std::string>& chain);
  // True if there were checkpoints, `committed_ever` of them by what job.state says, and none can
  // be restored: to create the partitions anew would lose all training without a word.
  bool Lost(uint64_t committed_ever) const;
  // Says that of the job in `dir`, with what people can do.
  std::string LostReason(const std::string& dir, uint64_t committed_ever) const;
  // The fewest batches that a trained partition has entered in any of them, or `batches` if that is
  // less; 0 if there are no checkpoints. A restore may take the job back as far as that.
  uint64_t LeastEntered(uint64_t batches) const;

  void Refuse(const std::string& name, const std::string& why) { refused_.emplace(name, why); }
  // The storage does not say whether this checkpoint was committed: it is refused until another
  // coordinator finds it committed, or not there.
  void Doubt(const std::string& name, const std::string& why);
  bool doubted() const { return doubted_; }
  // It need not be the newest.
  void Add(Manifest manifest);

  // Forgets the checkpoints beyond the retention policy and returns their names. Kept are the
  // newest `keep`, the newest healthy checkpoint, `best`, and all of their bases. If `keep` is
  // above 1 and a single full checkpoint, which may be damaged, underlies them all, a second full
  // checkpoint is kept. A checkpoint whose contents equal the next newer one is dropped, so a
  // restart without progress evicts no older checkpoint. Those `in_use` are being read.
  std::vector<std::string> Thin(size_t keep, const std::string& best,
                                const std::vector<std::string>& in_use = {});
  // Forgets one checkpoint, or a full checkpoint and all its increments, after a write failed with
  // `why` because the disk is full: a newer checkpoint is worth more than the number kept. The
  // newest one always stays.
  std::vector<std::string> MakeRoom(const std::string& why, const std::string& best);

 private:
  const Manifest* Find(const std::string& name) const;  // null if there is none
  // The base of the checkpoint `name`, or "". An unreadable checkpoint is assumed to be based on
  // the next older checkpoint, readable or not.
  std::string BaseOf(const std::string& name) const;
  // Returns the named checkpoints and those that they continue.
  std::set<std::string> WithChains(const std::set<std::string>& names) const;
  // The newest restorable full checkpoint outside `kept`; null if there is none.
  const Manifest* OtherFull(const std::set<std::string>& kept) const;
  bool Refused(const Manifest& manifest) const;

  std::vector<Manifest> committed_;
  std::map<std::string, std::string> refused_;
  bool doubted_ = false;   // at least one of them was refused by Doubt
  size_t more_links_ = 0;  // extra chain length: no full checkpoint fits
};

}  // namespace paracord
