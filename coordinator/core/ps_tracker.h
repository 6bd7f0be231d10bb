// The coordinator's view of the parameter servers of its job: the state of each, the calls in
// flight, and the newest description that it gave of itself. Owned by the core, which calls Drive
// at every step, hands on every answer, acts on the news that OnAnswer returns, and says when a ps
// is to be adopted, loaded or told to leave.
//
// A ps goes from kAway (no answer) through kSeen (answers, and obeys no newer coordinator) and
// kAdopted (obeys this generation) to kReady (holds its partitions). A new generation takes every
// ps that answers back to kSeen; a lost ps goes back to kAway.
//
// In a job with copies a ps that serves no partition is a guest: training does not wait for it, and
// it may be adopted and loaded with nothing while the other ps train. In asynchronous training only
// first holders serve; in synchronous training second holders serve too (PartitionSpec.copies).
//
// Invariants: of each kind at most one call to a ps is in flight, named by its tag; an answer with
// a different tag is late and ignored. Ledgers are read from all ps at once, and only while all are
// ready; a reading that one ps fails to answer never ends.
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

// Whether the ps serves the partition, as first or second holder.
inline bool IsHeldBy(const PartitionSpec& partition, uint32_t ps) {
  return partition.ps() == ps || std::ranges::count(partition.copies(), ps) > 0;
}

enum class PsState { kAway, kSeen, kAdopted, kReady };

struct Ps {
  std::string address;
  PsState state = PsState::kAway;
  PsDescription description;       // the newest, without the intervals of its ledgers
  std::string served_boot_id;      // the process that was last kReady
  uint64_t served_generation = 0;  // the generation in which it was kReady
  bool found_empty = false;        // without partitions when this coordinator found it
  uint64_t call_tag = 0;           // tags of calls in flight; 0: none
  uint64_t hold_tag = 0;
  uint64_t ping_tag = 0;
  uint64_t ledger_tag = 0;
  uint64_t snapshot_tag = 0;
  uint64_t prepare_tag = 0;
  int64_t retry_at_ms = 0;
  int64_t ping_at_ms = 0;
  int64_t prepare_at_ms = 0;               // no new order to prepare before this time
  std::vector<uint32_t> prepare_ids = {};  // partitions of the newest order to prepare
  std::string prepare_from = "";           // the checkpoint of that order
  std::string no_room = "";                // why it can never hold these partitions
  int64_t heard_ms = 0;                    // when it last answered
  uint64_t heard_tag = 0;                  // the newest tag that it has answered
  int64_t away_since_ms = 0;
  std::string loading_from;  // the checkpoint of the newest Load; "": it creates
  // Since when it has failed to load or prepare, or not seen our DIR.
  std::optional<int64_t> unread_since_ms;
  std::string problem;       // the newest error, for people
  bool unreachable = false;  // since it is away, a call has failed
  bool dial = true;          // no connection, or one to a wrong process
  bool draining = false;
  bool finished = false;                      // told to leave
  std::vector<PartitionDescription> ledgers;  // from the present reading
  TableRates rates;
};

// What a ps's answer means for the job. `why` is for people.
struct PsNews {
  enum class Kind {
    kNone,
    kReady,       // it holds its partitions and serves
    kLost,        // it is away now
    kDraining,    // it wants to leave once a checkpoint holds its state
    kLedgers,     // the ledgers of all ps have been read
    kSnapshot,    // it has answered the order for a snapshot
    kUnreadable,  // `checkpoint` cannot be restored: try an older one
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
  // All arguments outlive this object.
  PsTracker(const CoreOptions& options, const Generation& generation, Effects& effects,
            int64_t now_ms);

  // The run of the job is known. A ps that holds a different run is not used, unless TakeOver.
  void SetRun(const std::string& run_id) { run_id_ = run_id; }
  // A ps that holds `run_id` is to be loaded with our run instead; "": there is no such run.
  void TakeOver(const std::string& run_id) { taken_run_id_ = run_id; }
  // Sets which ps holds which partition. In a job with copies, a new generation has to follow if a
  // ps has gained or lost partitions.
  void SetLayout(std::vector<PartitionSpec> layout);
  // Whether the job needs the ps: it serves a partition, or the job has no copies.
  bool Needed(uint32_t index) const { return places_.empty() || places_[index] != kNobody; }
  // The number of needed ps, and the place of a ps among them, by which sessions name it.
  uint32_t needed() const { return places_.empty() ? size() : needed_; }
  uint32_t PlaceOf(uint32_t index) const { return places_.empty() ? index : places_[index]; }
  // The number of first holders, which write the files of checkpoints, and the place of a ps among
  // them; kNobody: the ps writes no file.
  uint32_t writers() const { return files_.empty() ? size() : writers_; }
  uint32_t FileOf(uint32_t index) const { return files_.empty() ? index : files_[index]; }
  // Sets the addresses of the job's ps. A ps that keeps its index and address keeps its state. If
  // the partitions are known, a new generation and SetLayout have to follow.
  void SetPs(const std::vector<std::string>& addresses, int64_t now_ms);
  const std::vector<PartitionSpec>& layout() const { return layout_; }

  // Also looks at these ps, which a move is to bring in, until SetPs or SendAway. Their indices
  // follow those of the job's ps.
  void Invite(const std::vector<std::string>& addresses);
  // The invited ps. An invited ps that holds nothing and obeys no other coordinator is adopted;
  // otherwise its `problem` says why not, or it has not answered yet.
  const std::vector<Ps>& invited() const { return invited_; }
  // Whether an invited ps is adopted in this generation and sees our DIR, as a Load of nothing
  // showed.
  bool IsIn(const Ps& invited) const {
    return invited.state == PsState::kAdopted && invited.description.run_id() == run_id_;
  }
  // The adopted invited ps that still have to load nothing: only a Load shows whether a ps sees our
  // DIR.
  std::vector<uint32_t> InvitedToLoad(int64_t now_ms) const;
  // Asks all ps that answer, and the invited ones, for a sign of life.
  void AskAll(int64_t now_ms);
  // Whether the ps has answered a call made after AskAll.
  bool AnsweredAskAll(uint32_t index) const { return At(index).heard_tag > ask_all_tag_; }
  // The move is abandoned: tells the invited ps to leave, and forgets them.
  void SendAway();
  // The job has ended: tells the invited ps to leave.
  void FinishInvited(ExitCode code, const std::string& reason);
  // Orders a ps, invited or not, to prepare partitions of a checkpoint; adds the fence.
  void Prepare(uint32_t index, LoadRequest prepare);
  // Whether the ps has prepared these partitions (ascending) of the checkpoint.
  bool HasPrepared(uint32_t index, const std::string& checkpoint,
                   const std::vector<uint32_t>& ids) const {
    const Ps& ps = At(index);
    return ps.description.prepared() == checkpoint && ps.prepare_ids == ids;
  }
  // The checkpoints that ps are reading to prepare partitions.
  std::vector<std::string> CheckpointsInUse() const;
  const Ps& At(uint32_t index) const {
    return index < ps_.size() ? ps_[index] : invited_[index - ps_.size()];
  }

  const std::vector<Ps>& all() const { return ps_; }
  // The needed ps. What other ps report of partitions says nothing about the job.
  std::vector<const Ps*> Holders() const;
  uint32_t size() const { return static_cast<uint32_t>(ps_.size()); }
  // The number of needed ps that are not away.
  size_t CountThere() const;
  // Whether all, or any, of the needed ps are in this state, or drain.
  bool AllAre(PsState state) const;
  bool AnyIs(PsState state) const;
  bool AnyDrains() const;
  // Whether some partition has entered a batch, as far as is known.
  bool AnyEntered() const;
  // Whether some ps holds partitions trained under an earlier coordinator.
  bool AnyHoldsRun() const;
  bool HoldsItsPartitions(uint32_t index) const;
  // Whether the ps holds partitions of this run, and only partitions that it is to hold.
  bool HoldsSomeOfIts(uint32_t index) const;
  // Whether the present process of the ps is the one that was last ready.
  bool IsLifeThatServed(uint32_t index) const {
    const Ps& ps = ps_[index];
    return !ps.served_boot_id.empty() && ps.served_boot_id == ps.description.boot_id();
  }
  // Whether a needed ps is adopted and does not hold exactly its partitions.
  bool AnyNeedsLoad() const;
  // How often a ps that was ready has come back as a new process.
  uint64_t recoveries() const { return recoveries_; }
  // Called when all ps are ready for the first time: an empty ps among ps that hold the run
  // replaces a ps lost together with the last coordinator, and counts as a recovery.
  void CountReplaced();

  // Calls the ps that are due: those away, and those that answer. `formed`: all were ready once.
  // Returns why the job ends if a needed ps has been away for too long, which counts once the
  // cluster has formed or a ps holds the run.
  std::optional<std::string> Drive(int64_t now_ms, bool formed);
  // Takes an answer before the end of the job.
  PsNews OnAnswer(const PsAnswerEvent& event, int64_t now_ms, bool formed);

  // The ps in this state that are due for a call and have none in flight: of the needed ps, or of
  // the guests.
  std::vector<uint32_t> Idle(PsState state, int64_t now_ms, bool needed = true) const;
  void Adopt(uint32_t index);
  // Orders the ps to load its partitions, or to keep them with new settings. `load` has the part
  // that is the same for all ps; the fence and the partitions are added.
  void Load(uint32_t index, LoadRequest load);
  // The ps cannot be loaded now: tries again later.
  void RetryLater(uint32_t index, int64_t now_ms);
  // The ps holds its partitions and serves.
  void MarkReady(uint32_t index, int64_t now_ms);
  // A new generation begins: every ps that answers has to be adopted again.
  void BeginGeneration();

  // Asks all ps for their ledgers. False, and nothing is asked, if a ps is not ready or a reading
  // is under way.
  bool ReadLedgers(int64_t now_ms);
  bool reading() const { return reading_; }
  // Abandons the reading under way.
  void StopReading() { reading_ = false; }
  // Requests a new reading soon, because a worker met a gap or died.
  void WantLedgers() { reread_ = true; }
  bool LedgersDue(int64_t now_ms) const;
  // When ledgers were last asked for.
  int64_t read_ms() const { return read_ms_; }
  // The ledgers just read: valid from the news kLedgers until ForgetLedgers, which the core calls
  // after use.
  std::vector<const Ledger*> Ledgers() const;
  void ForgetLedgers();
  // The id of a partition with non-finite values, by the ledgers just read.
  std::optional<uint32_t> NotFinite() const;

  // In synchronous training: the greatest state of any partition, by the newest descriptions.
  uint64_t GreatestState() const;

  // Orders a snapshot; adds the fence.
  void AskSnapshot(uint32_t index, SnapshotRequest request);
  // Answers to orders for snapshots are no longer expected.
  void ForgetSnapshots();
  // Takes the state of partitions from a snapshot, which is newer than the last description.
  void SetPartitions(uint32_t index, const SnapshotReply& snapshot);

  // Tells an adopted ps to leave.
  void Finish(uint32_t index, ExitCode code, const std::string& reason);
  // After the end of the job: tells ps to leave. A ps obeys only a coordinator that adopted it, so
  // Tell first describes and adopts a ps where needed. Nothing is loaded, so a used generation may
  // adopt it.
  void Tell(const Exit& exit, int64_t now_ms);
  void OnTold(const PsAnswerEvent& event, int64_t now_ms);
  // Whether every ps told to leave has answered; with `tell`, whether every ps has also been told.
  bool AllTold(bool tell) const;

  // This coordinator was suspended for `stopped_ms` and could hear nobody.
  void Forgive(int64_t stopped_ms, int64_t now_ms);

  // Whether training can go on without the needed ps that are away: each was called without
  // success, and every partition has a holder that is not away and holds all its partitions, or may
  // load them (`load`, or a ps has been away for longer than timeouts.ps_return_s).
  bool OthersHoldAll(int64_t now_ms, bool load) const;

  // For people, empty if there are none: the ps that are away, the ps that see another DIR, and
  // exchanges that wait for slow readers.
  std::vector<std::string> Missing() const;
  std::string OtherDirs() const;
  std::string SlowReaders() const;

 private:
  Fence FenceFor(const Ps& ps) const;
  // Whether a ps holds nothing, our run, or the run that ours replaces.
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
  std::vector<uint32_t> places_;  // index: ps; kNobody: a guest; empty: no copies
  std::vector<uint32_t> files_;   // index: ps; kNobody: not a first holder
  uint32_t needed_ = 0;           // number of needed ps
  uint32_t writers_ = 0;          // number of first holders
  std::vector<Ps> ps_;
  std::vector<Ps> invited_;
  uint64_t last_tag_ = 0;
  uint64_t ask_all_tag_ = 0;  // the newest call before AskAll
  uint64_t recoveries_ = 0;
  bool replaced_counted_ = false;
  int64_t look_at_ms_ = 0;  // when to look for a newer coordinator
  bool reading_ = false;
  bool reread_ = false;
  int64_t read_ms_ = 0;
};

}  // namespace paracord
