// The parameter servers of a job as their coordinator sees them: who is away, seen, adopted or
// ready, which calls to each are in flight, and what each said of itself last. Owned by the core,
// which calls Drive at every step, hands on every answer, acts on the news that an answer brings,
// and says when a ps is to be adopted, loaded or told to leave.
//
// A ps goes from kAway (no answer) through kSeen (answers, and obeys no newer coordinator) and
// kAdopted (obeys this generation) to kReady (holds its partitions). A new generation takes those
// that are there back to kSeen, and a ps that is lost goes back to kAway.
//
// In a job with copies a ps that serves no partition is a guest: training does not wait for it, and
// it may be adopted and loaded, with nothing, while others train. In asynchronous training first
// holders alone serve; in synchronous training second ones do, too (PartitionSpec.copies).
//
// Invariants: of each kind at most one call to a ps is in flight, named by its tag; an answer with
// another tag is late and ignored. Ledgers are read of all ps at once and only while all are ready,
// and a reading that any ps spoils never ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exit_code.h"
#include "coordinator/core/core_options.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/events.h"
#include "coordinator/core/generation.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/table_rates.h"

namespace paracord {

// Whether the ps serves the partition.
inline bool IsHeldBy(const PartitionSpec& partition, uint32_t ps) {
  return partition.ps() == ps || std::ranges::count(partition.copies(), ps) > 0;
}

enum class PsState { kAway, kSeen, kAdopted, kReady };

struct Ps {
  std::string address;
  PsState state = PsState::kAway;
  PsDescription description;       // the newest known, without the intervals of its ledgers
  std::string served_boot_id;      // the process that was last kReady
  uint64_t served_generation = 0;  // in which it was
  bool found_empty = false;        // it held nothing when this coordinator found it
  uint64_t call_tag = 0;           // calls in flight; 0: none
  uint64_t hold_tag = 0;
  uint64_t ping_tag = 0;
  uint64_t ledger_tag = 0;
  uint64_t snapshot_tag = 0;
  uint64_t prepare_tag = 0;
  int64_t retry_at_ms = 0;
  int64_t ping_at_ms = 0;
  int64_t prepare_at_ms = 0;               // after a preparation that failed
  std::vector<uint32_t> prepare_ids = {};  // the partitions of the newest order to prepare
  std::string prepare_from = "";           // the checkpoint of that order
  std::string no_room = "";                // why it cannot hold them, however long one waits
  int64_t heard_ms = 0;                    // when it last answered
  uint64_t heard_tag = 0;                  // the newest call that it has answered
  int64_t away_since_ms = 0;
  std::string loading_from;                // the checkpoint of the newest Load; empty: it creates
  std::optional<int64_t> unread_since_ms;  // since when it cannot load or prepare, or see our DIR
  std::string problem;                     // the newest error, for people
  bool unreachable = false;                // it has been looked for since it is away, in vain
  bool dial = true;                        // there is no connection, or it led to somebody else
  bool draining = false;
  bool finished = false;                      // told to leave
  std::vector<PartitionDescription> ledgers;  // from the reading under way
  TableRates rates;
};

// The meaning of a ps's answer for the job. `why` is for people.
struct PsNews {
  enum class Kind {
    kNone,
    kReady,       // it holds its partitions and serves
    kLost,        // it is away now
    kDraining,    // it wants to leave as soon as a checkpoint holds what it has
    kLedgers,     // the ledgers of all ps have been read
    kSnapshot,    // it has answered the order for a snapshot
    kUnreadable,  // `checkpoint` cannot be restored: the one before it is to be tried
    kSuperseded,  // a newer coordinator leads
    kHopeless,    // the job ends with `code`
  };
  Kind kind = Kind::kNone;
  std::string why = "";
  std::string checkpoint = "";
  ExitCode code = ExitCode::kFailed;
};

class PsTracker {
 public:
  // All of the arguments outlive this object.
  PsTracker(const CoreOptions& options, const Generation& generation, Effects& effects,
            int64_t now_ms);

  // The run is known, and which ps holds which partition.
  void SetRun(const std::string& run_id) { run_id_ = run_id; }
  // A ps that holds this run, unless that is empty, is to be loaded with ours instead.
  void TakeOver(const std::string& run_id) { taken_run_id_ = run_id; }
  // Where the job has copies, and a ps has got partitions or lost them, a new generation follows.
  void SetLayout(std::vector<PartitionSpec> layout);
  // Whether the ps serves some partition, or may do so at any time, since the job has no copies.
  bool Needed(uint32_t index) const { return places_.empty() || places_[index] != kNobody; }
  // The ps that are needed, by their order among these; sessions name those alone.
  uint32_t needed() const { return places_.empty() ? size() : needed_; }
  uint32_t PlaceOf(uint32_t index) const { return places_.empty() ? index : places_[index]; }
  // Of these the first holders, which write the files of checkpoints, in the same way; kNobody: the
  // ps writes none.
  uint32_t writers() const { return files_.empty() ? size() : writers_; }
  uint32_t FileOf(uint32_t index) const { return files_.empty() ? index : files_[index]; }
  // The ps of the job are those at these addresses. One that keeps index and address stays as it
  // is. A new generation, and SetLayout, have to follow if the partitions are known.
  void SetPs(const std::vector<std::string>& addresses, int64_t now_ms);
  const std::vector<PartitionSpec>& layout() const { return layout_; }

  // Looks at these further ps, which a move is to bring in, until SetPs or SendAway. Their indices
  // follow those of the others.
  void Invite(const std::vector<std::string>& addresses);
  // Those that are looked at. One that may come in, since it holds nothing and obeys nobody else,
  // is adopted; another has a problem, or has not answered yet.
  const std::vector<Ps>& invited() const { return invited_; }
  // Whether an invited ps is adopted in this generation, and has our DIR: by a Load of nothing.
  bool IsIn(const Ps& invited) const {
    return invited.state == PsState::kAdopted && invited.description.run_id() == run_id_;
  }
  // Those that are adopted and have to load nothing, because only a Load tells whether a ps has our
  // DIR.
  std::vector<uint32_t> InvitedToLoad(int64_t now_ms) const;
  // Asks all ps that are there, and those invited, for a sign of life.
  void AskAll(int64_t now_ms);
  // Whether the ps has answered a call that was made after AskAll.
  bool AnsweredAskAll(uint32_t index) const { return At(index).heard_tag > ask_all_tag_; }
  // The move is given up: tells those who were invited to leave, and forgets them.
  void SendAway();
  // The job has ended: tells those who are invited to leave.
  void FinishInvited(ExitCode code, const std::string& reason);
  // Orders a ps, invited or not, to prepare partitions of a checkpoint. The fence is added here.
  void Prepare(uint32_t index, LoadRequest prepare);
  // Whether the ps has prepared these partitions, ascending, of the checkpoint.
  bool HasPrepared(uint32_t index, const std::string& checkpoint,
                   const std::vector<uint32_t>& ids) const {
    const Ps& ps = At(index);
    return ps.description.prepared() == checkpoint && ps.prepare_ids == ids;
  }
  // The checkpoints that are being read to prepare partitions.
  std::vector<std::string> CheckpointsInUse() const;
  const Ps& At(uint32_t index) const {
    return index < ps_.size() ? ps_[index] : invited_[index - ps_.size()];
  }

  const std::vector<Ps>& all() const { return ps_; }
  // Those that are needed. What others have told of partitions says nothing of the job.
  std::vector<const Ps*> Holders() const;
  uint32_t size() const { return static_cast<uint32_t>(ps_.size()); }
  // The ps that are needed and not away.
  size_t CountThere() const;
  // These three are of the ps that are needed.
  bool AllAre(PsState state) const;
  bool AnyIs(PsState state) const;
  bool AnyDrains() const;
  // Whether some partition has entered a batch, as far as is known.
  bool AnyEntered() const;
  // Whether some ps holds what a coordinator before this one has trained.
  bool AnyHoldsRun() const;
  bool HoldsItsPartitions(uint32_t index) const;
  // Whether it holds some of its partitions of this run, and no other.
  bool HoldsSomeOfIts(uint32_t index) const;
  // Whether the process there is the one that was ready last.
  bool IsLifeThatServed(uint32_t index) const {
    const Ps& ps = ps_[index];
    return !ps.served_boot_id.empty() && ps.served_boot_id == ps.description.boot_id();
  }
  // Whether one is adopted, with nothing or with other partitions than its own.
  bool AnyNeedsLoad() const;
  // How many new lives of ps that were ready have come.
  uint64_t recoveries() const { return recoveries_; }
  // All are ready for the first time: an empty ps among ps that hold the run replaces a ps lost
  // together with the last coordinator, and counts as a recovery.
  void CountReplaced();

  // Looks for ps that are away, and at those that are there. `formed`: all were ready once. Returns
  // why the job ends if one has been away for too long, which counts once the cluster lives.
  std::optional<std::string> Drive(int64_t now_ms, bool formed);
  // Takes an answer before the end of the job.
  PsNews OnAnswer(const PsAnswerEvent& event, int64_t now_ms, bool formed);

  // The ps at that state that are due to be called, with no call in flight: those that are needed,
  // or guests.
  std::vector<uint32_t> Idle(PsState state, int64_t now_ms, bool needed = true) const;
  void Adopt(uint32_t index);
  // Orders the ps to load its partitions, or to keep them with new settings. `load` has what all ps
  // are told alike; the fence and the partitions are added here.
  void Load(uint32_t index, LoadRequest load);
  // The ps cannot be loaded now.
  void RetryLater(uint32_t index, int64_t now_ms);
  // The ps holds what it should.
  void MarkReady(uint32_t index, int64_t now_ms);
  // A new generation begins: all that are there are to be adopted in it.
  void BeginGeneration();

  // Asks all ps for their ledgers, and says whether it did: all have to be ready, with no reading
  // under way.
  bool ReadLedgers(int64_t now_ms);
  bool reading() const { return reading_; }
  // Gives up the reading under way.
  void StopReading() { reading_ = false; }
  // The ledgers are to be read again soon: a worker met a gap, or died.
  void WantLedgers() { reread_ = true; }
  bool LedgersDue(int64_t now_ms) const;
  // When ledgers were last asked for.
  int64_t read_ms() const { return read_ms_; }
  // The ledgers just read, from kLedgers until ForgetLedgers, which is called when they were used.
  std::vector<const Ledger*> Ledgers() const;
  void ForgetLedgers();
  // The id of a partition with values that are not finite, by the ledgers just read.
  std::optional<uint32_t> NotFinite() const;

  // In synchronous training: the greatest state of a partition, as the ps last said.
  uint64_t GreatestState() const;

  // Orders a snapshot; the fence is added here.
  void AskSnapshot(uint32_t index, SnapshotRequest request);
  // Answers to orders for snapshots are not awaited any more.
  void ForgetSnapshots();
  // A snapshot tells of its partitions what is newer than the last description.
  void SetPartitions(uint32_t index, const SnapshotReply& snapshot);

  // Tells a ps that has been adopted to leave.
  void Finish(uint32_t index, ExitCode code, const std::string& reason);
  // After the end: a ps obeys only a coordinator that adopted it, so Tell first describes and
  // adopts a ps where needed. Nothing is loaded, so a used generation may adopt it.
  void Tell(const Exit& exit, int64_t now_ms);
  void OnTold(const PsAnswerEvent& event, int64_t now_ms);
  // Whether all that were told to leave have answered, and with `tell` all were told.
  bool AllTold(bool tell) const;

  // This coordinator did not run for so long, and could hear nobody.
  void Forgive(int64_t stopped_ms, int64_t now_ms);

  // Whether each ps that is needed and away has been looked for in vain, and every partition has a
  // holder that is there with all that it is to hold, or may `load` that. When a ps has been away
  // for timeouts.ps_return_s, all may.
  bool OthersHoldAll(int64_t now_ms, bool load) const;

  // For people: who is away; the ps that see another DIR than ours; exchanges that wait for slow
  // readers. Empty if there are none.
  std::vector<std::string> Missing() const;
  std::string OtherDirs() const;
  std::string SlowReaders() const;

 private:
  Fence FenceFor(const Ps& ps) const;
  // Whether a ps holds nothing, our run, or the one that ours takes the place of.
  bool IsOurs(const PsDescription& description) const;
  DescribeRequest Look() const;
  int64_t PingMs() const { return std::min<int64_t>(options_.job.timeouts.ps_ms / 4, 1000); }
  void Send(uint32_t index, uint64_t& tag, int64_t deadline_ms, PsRequest request);
  PsNews Lose(uint32_t index, const std::string& why, int64_t now_ms);
  void OnWrongPeer(uint32_t index, const std::string& problem, int64_t now_ms);
  void OnInvited(const PsAnswerEvent& event, int64_t now_ms);
  void OnPrepared(const PsAnswerEvent& event, int64_t now_ms);
  std::string WhyNotInvited(const PsDescription& description, uint32_t index) const;
  std::string WhyNeverInvited(const PsDescription& description, uint32_t index) const;
  std::string OtherDirText(const PsDescription& description) const;
  Ps& Mine(uint32_t index) {
    return index < ps_.size() ? ps_[index] : invited_[index - ps_.size()];
  }
  PsNews OnOtherDir(uint32_t index, int64_t now_ms);
  PsNews OnDescribed(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms,
                     bool formed);
  PsNews TakeDescription(uint32_t index, const PsDescription& description, int64_t now_ms);
  PsNews OnAdopted(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms);
  PsNews OnLoaded(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms);
  PsNews OnLoadFailed(uint32_t index, const absl::Status& status, int64_t now_ms);
  PsNews OnHoldAnswer(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms);
  PsNews OnPinged(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms);
  PsNews OnLedgers(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms);
  void SayRefusedPeer(uint32_t index, const PsDescription& description);

  const CoreOptions& options_;
  const Generation& generation_;
  Effects& effects_;
  std::string run_id_;
  std::string taken_run_id_;
  std::vector<PartitionSpec> layout_;
  std::vector<uint32_t> places_;  // by ps; kNobody: a guest. Empty: the job has no copies
  std::vector<uint32_t> files_;   // by ps; kNobody: it is no first holder
  uint32_t needed_ = 0;           // how many are no guests
  uint32_t writers_ = 0;          // how many of them are first holders
  std::vector<Ps> ps_;
  std::vector<Ps> invited_;
  uint64_t last_tag_ = 0;
  uint64_t ask_all_tag_ = 0;  // the newest call before AskAll
  uint64_t recoveries_ = 0;
  bool replaced_counted_ = false;
  int64_t look_at_ms_ = 0;  // when a newer coordinator is looked for, while a ps is away
  bool reading_ = false;
  bool reread_ = false;
  int64_t read_ms_ = 0;
};

}  // namespace paracord
