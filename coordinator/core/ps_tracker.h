// The coordinator's view of the parameter servers of its job: the state of each ps, the calls in
// flight, and the newest description that the ps gave of itself. Owned by the coordinator's core,
// which until the end of the job calls Drive after every event, hands on every answer, acts on the
// news that OnAnswer returns, and says when a ps is to be adopted, loaded or told to leave.
//
// A ps goes from kAway (no answer that the job can use) through kSeen (answers, and obeys no newer
// coordinator) and kAdopted (obeys this generation) to kReady (holds its partitions and serves). A
// new generation takes every ps that is not kAway back to kSeen; a lost ps goes back to kAway.
//
// PartitionSpec.ps is the first holder of a partition. In a job with copies another ps may be its
// second holder, which in synchronous training is in PartitionSpec.copies and serves the partition,
// too. A ps that serves no partition is then a guest: training does not wait for it, and it may be
// adopted and loaded with nothing while the other ps train. A ps that is no guest is called needed.
//
// Invariants: of each kind of call to a ps, the answer to at most one is awaited, named by its tag;
// an answer with another tag is late, and shows only that the ps lives. Ledgers are read from all
// needed ps at once, and only while all are ready; a reading is abandoned when one of these ps is
// lost.
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
  std::string served_boot_id;      // boot id of the process that was last kReady
  uint64_t served_generation = 0;  // the generation in which it was last kReady
  bool found_empty = false;        // its process held no partitions when it was found
  // The tag of the awaited answer, for each kind of call; 0: no answer is awaited.
  uint64_t call_tag = 0;  // Describe of a ps that is away, Adopt, Load or Finish
  uint64_t hold_tag = 0;
  uint64_t ping_tag = 0;
  uint64_t ledger_tag = 0;
  uint64_t snapshot_tag = 0;
  uint64_t prepare_tag = 0;
  int64_t retry_at_ms = 0;                 // no call with `call_tag` before this time
  int64_t ping_at_ms = 0;                  // when the next ping is due
  int64_t prepare_at_ms = 0;               // no order to prepare before this time
  std::vector<uint32_t> prepare_ids = {};  // partitions of the newest order to prepare
  std::string prepare_from = "";           // the checkpoint of the newest order to prepare
  std::string no_room = "";                // why it can take no partitions in a move; "": it may
  int64_t heard_ms = 0;    // when a ps of the job last answered without an error; 0: never
  uint64_t heard_tag = 0;  // the greatest tag that it has answered without an error
  int64_t away_since_ms = 0;
  std::string loading_from;  // the checkpoint of the newest Load; "": the ps creates its partitions
  // Since when it has failed to load or prepare its partitions, or, if invited, has had another
  // --dir than the coordinator.
  std::optional<int64_t> unread_since_ms;
  std::string problem;       // the newest error, for people
  bool unreachable = false;  // since it is away, a call has failed to bring it back
  bool dial = true;          // the next call needs a new connection
  bool draining = false;
  bool finished = false;                      // was told to leave
  std::vector<PartitionDescription> ledgers;  // from the present reading of the ledgers
  TableRates rates;
};

// What a ps's answer means for the job. `why` is for people.
struct PsNews {
  enum class Kind {
    kNone,
    kReady,       // the ps holds its partitions and serves
    kLost,        // a needed ps is away now
    kDraining,    // the ps got SIGTERM, and wants to leave once a checkpoint holds its state
    kLedgers,     // the ledgers of all needed ps have been read
    kSnapshot,    // the ps has answered the order for a snapshot, perhaps with an error
    kUnreadable,  // a checkpoint cannot be restored: try an older one
    kSuperseded,  // a newer coordinator leads
    kHopeless,    // the job cannot go on
  };
  Kind kind = Kind::kNone;
  std::string why = "";
  std::string checkpoint = "";        // with kUnreadable: the name of the checkpoint
  ExitCode code = ExitCode::kFailed;  // with kHopeless: how the job has to end
};

class PsTracker {
 public:
  // `options`, `generation` and `effects` must outlive this object.
  PsTracker(const CoreOptions& options, const Generation& generation, Effects& effects,
            int64_t now_ms);

  // Sets the job's run id. A ps that holds another run is not used, unless TakeOver has named that
  // run.
  void SetRun(const std::string& run_id) { run_id_ = run_id; }
  // A ps that holds the run `run_id` may be used, and is to be loaded with the job's run instead;
  // "": there is no such run.
  void TakeOver(const std::string& run_id) { taken_run_id_ = run_id; }
  // Sets which ps holds which partition. In a job with copies, a new generation has to follow if a
  // ps has gained or lost partitions.
  void SetLayout(std::vector<PartitionSpec> layout);
  // Whether the job needs the ps: it serves a partition, or the job has no copies.
  bool Needed(uint32_t index) const { return places_.empty() || places_[index] != kNobody; }
  // The number of needed ps. PlaceOf: the index of a ps among the needed ps, by which the sessions
  // of workers name the ps; kNobody: the ps is a guest.
  uint32_t needed() const { return places_.empty() ? size() : needed_; }
  uint32_t PlaceOf(uint32_t index) const { return places_.empty() ? index : places_[index]; }
  // The number of ps that are first holders; these write the files of checkpoints. FileOf: the
  // index of a ps among the first holders, and of its file; kNobody: the ps writes no file.
  uint32_t writers() const { return files_.empty() ? size() : writers_; }
  uint32_t FileOf(uint32_t index) const { return files_.empty() ? index : files_[index]; }
  // Sets the addresses of the job's ps, and forgets the invited ps. A ps that keeps its index and
  // address keeps its state. If the partitions are known, a new generation and SetLayout must
  // follow.
  void SetPs(const std::vector<std::string>& addresses, int64_t now_ms);
  const std::vector<PartitionSpec>& layout() const { return layout_; }

  // From now on also calls these ps, which a move is to bring in, until SetPs or SendAway. Their
  // indices follow those of the job's ps.
  void Invite(const std::vector<std::string>& addresses);
  // The invited ps. An invited ps is adopted unless there is a reason against it, such as
  // partitions that it holds, or a newer coordinator that it obeys. `problem` has the reason.
  const std::vector<Ps>& invited() const { return invited_; }
  // Whether an invited ps is adopted in this generation and has the coordinator's --dir, as a Load
  // without partitions has shown.
  bool IsIn(const Ps& invited) const {
    return invited.state == PsState::kAdopted && invited.description.run_id() == run_id_;
  }
  // The indices of the adopted invited ps that are not in (IsIn), and are due for a Load without
  // partitions.
  std::vector<uint32_t> InvitedToLoad(int64_t now_ms) const;
  // Asks all ps of the job, and the invited ps that are in, for a sign of life.
  void AskAll(int64_t now_ms);
  // Whether the ps has answered a call made after AskAll.
  bool AnsweredAskAll(uint32_t index) const { return At(index).heard_tag > ask_all_tag_; }
  // The move is abandoned: tells the adopted invited ps to leave, and forgets all invited ps.
  void SendAway();
  // The job has ended: tells the adopted invited ps to leave.
  void FinishInvited(ExitCode code, const std::string& reason);
  // Orders a ps, invited or not, to prepare the partitions in `prepare`: to read them from a
  // checkpoint before it holds them. Adds the fence (run id, generation and boot id).
  void Prepare(uint32_t index, LoadRequest prepare);
  // Whether the ps has prepared exactly the partitions `ids` (ascending) of the checkpoint.
  bool HasPrepared(uint32_t index, const std::string& checkpoint,
                   const std::vector<uint32_t>& ids) const {
    const Ps& ps = At(index);
    return ps.description.prepared() == checkpoint && ps.prepare_ids == ids;
  }
  // The checkpoints that ps are now preparing partitions from.
  std::vector<std::string> CheckpointsInUse() const;
  const Ps& At(uint32_t index) const {
    return index < ps_.size() ? ps_[index] : invited_[index - ps_.size()];
  }

  const std::vector<Ps>& all() const { return ps_; }
  // The needed ps.
  std::vector<const Ps*> Holders() const;
  uint32_t size() const { return static_cast<uint32_t>(ps_.size()); }
  // The number of needed ps that are not away.
  size_t CountThere() const;
  // Whether all, or any, of the needed ps are in this state; whether any of them drains.
  bool AllAre(PsState state) const;
  bool AnyIs(PsState state) const;
  bool AnyDrains() const;
  // Whether some partition of a needed ps has entered a batch, by the newest descriptions.
  bool AnyEntered() const;
  // Whether some ps that is not away holds partitions of the job's run.
  bool AnyHoldsRun() const;
  // Whether the ps holds exactly the partitions of the job's run that the layout gives it.
  bool HoldsItsPartitions(uint32_t index) const;
  // Whether the ps holds partitions of the job's run, and only such as the layout gives it.
  bool HoldsSomeOfIts(uint32_t index) const;
  // Whether the present process of the ps is the one that was last ready.
  bool IsLifeThatServed(uint32_t index) const {
    const Ps& ps = ps_[index];
    return !ps.served_boot_id.empty() && ps.served_boot_id == ps.description.boot_id();
  }
  // Whether a needed ps is adopted and does not hold exactly its partitions.
  bool AnyNeedsLoad() const;
  // How often a ps has recovered: it came back as a new process after it had been ready, or
  // CountReplaced found it.
  uint64_t recoveries() const { return recoveries_; }
  // Called when all ps are ready, and counts once: each ps found empty beside ps with partitions
  // has replaced a ps that was lost together with the last coordinator, and counts as a recovery.
  void CountReplaced();

  // Makes the calls of this class that are due, to all ps, invited ones too. `formed`: all ps were
  // ready once. Returns why the job cannot wait longer: a needed ps has been away for longer than
  // timeouts.ps_return_s, and the cluster has formed or a ps holds the run; else nullopt.
  std::optional<std::string> Drive(int64_t now_ms, bool formed);
  // Takes a ps's answer, before the end of the job; afterwards OnTold does.
  PsNews OnAnswer(const PsAnswerEvent& event, int64_t now_ms, bool formed);

  // The ps in this state to which a call is due and none with `call_tag` is in flight: needed ps,
  // or guests if not `needed`.
  std::vector<uint32_t> Idle(PsState state, int64_t now_ms, bool needed = true) const;
  void Adopt(uint32_t index);
  // Orders the ps to load its partitions, or if load.keep() to keep them with new settings. Adds
  // the fence and the partitions to `load`.
  void Load(uint32_t index, LoadRequest load);
  // The ps cannot be loaded now: it is due again after kRepeatMs.
  void RetryLater(uint32_t index, int64_t now_ms);
  // The ps holds its partitions and serves: makes it kReady.
  void MarkReady(uint32_t index, int64_t now_ms);
  // A new generation begins: every ps that answers has to be adopted again.
  void BeginGeneration();

  // Asks all needed ps for their ledgers. False, and none is asked, if one of them is not ready or
  // a reading is under way.
  bool ReadLedgers(int64_t now_ms);
  bool reading() const { return reading_; }
  // Abandons the reading under way.
  void StopReading() { reading_ = false; }
  // Requests a new reading, for example because a worker died: LedgersDue is true once kTickMs have
  // passed since the last one began.
  void WantLedgers() { reread_ = true; }
  bool LedgersDue(int64_t now_ms) const;
  // When ledgers were last asked for.
  int64_t read_ms() const { return read_ms_; }
  // The ledgers just read: valid from the news kLedgers until ForgetLedgers, which the core calls
  // after use.
  std::vector<const Ledger*> Ledgers() const;
  void ForgetLedgers();
  // The id of a partition with non-finite values, by the reading that Ledgers returns.
  std::optional<uint32_t> NotFinite() const;

  // In synchronous training: the most rounds that any partition of a needed ps has applied, by the
  // newest descriptions.
  uint64_t GreatestState() const;

  // Orders a snapshot; adds the fence.
  void AskSnapshot(uint32_t index, SnapshotRequest request);
  // Answers to orders for snapshots are no longer expected.
  void ForgetSnapshots();
  // Takes the descriptions of partitions in the answer to a snapshot into the ps's description.
  void SetPartitions(uint32_t index, const SnapshotReply& snapshot);

  // Tells the ps to leave, if it is kAdopted or kReady.
  void Finish(uint32_t index, ExitCode code, const std::string& reason);
  // Called again and again after the end of the job, until each ps was told to leave. A ps obeys
  // only a coordinator that has adopted it, so Tell first looks for a ps that is away, and adopts
  // one that is kSeen.
  void Tell(const Exit& exit, int64_t now_ms);
  void OnTold(const PsAnswerEvent& event, int64_t now_ms);
  // Whether every ps that was told to leave has answered, and with `tell`, whether all ps have been
  // told, except guests that are away.
  bool AllTold(bool tell) const;

  // This coordinator was suspended for `stopped_ms`: no ps counts as silent or away in that time.
  void Forgive(int64_t stopped_ms, int64_t now_ms);

  // Whether training can go on without the needed ps that are away. A call to each of them must
  // have failed, and every partition needs a first or second holder that is not away and holds
  // exactly the partitions that the layout gives it. With `load`, or once a needed ps is away for
  // longer than timeouts.ps_return_s, it is enough that a holder is not away: it can load its
  // partitions.
  bool OthersHoldAll(int64_t now_ms, bool load) const;

  // Texts for people, empty if there is nothing to say: the needed ps that are away; the adopted ps
  // with another --dir than the coordinator; the ps whose exchanges wait because workers have not
  // read earlier replies yet (--pinned-mb).
  std::vector<std::string> Missing() const;
  std::string OtherDirs() const;
  std::string SlowReaders() const;

 private:
  Fence FenceFor(const Ps& ps) const;
  // Whether the description shows no run, the job's run, or the run that TakeOver named.
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
  std::vector<uint32_t> places_;  // PlaceOf by index; empty: the job has no copies
  std::vector<uint32_t> files_;   // FileOf by index; empty: the job has no copies
  uint32_t needed_ = 0;           // number of needed ps
  uint32_t writers_ = 0;          // number of first holders
  std::vector<Ps> ps_;
  std::vector<Ps> invited_;
  uint64_t last_tag_ = 0;
  uint64_t ask_all_tag_ = 0;  // the tag of the newest call before AskAll
  uint64_t recoveries_ = 0;
  bool replaced_counted_ = false;
  int64_t look_at_ms_ = 0;  // when to look for a newer coordinator
  bool reading_ = false;
  bool reread_ = false;
  int64_t read_ms_ = 0;
};

}  // namespace paracord
