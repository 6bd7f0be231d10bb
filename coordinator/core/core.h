// The coordinator's decisions as a pure state machine: (now, event) -> effects. It starts no
// thread, takes no lock, reads no clock and does no I/O; the shell (coordinator.h) feeds each event
// as it comes, on one thread.
//
// All knowledge is in the types of the members below, each with its own invariants. The core sets
// the phases of the job, hands events to its members and acts on the results, in one file for each
// subject:
//
//   - core.cc: the event loop, the phases and the end; core_job.cc: the identity of the job
//   - core_ps.cc: forming the cluster; core_rollback.cc: the first state of a generation
//   - core_joins.cc, core_workers.cc: workers; core_lanes.cc: leases of lanes
//   - core_failures.cc: failed batches; core_history.cc: the history of epochs
//   - core_move.cc: a move to more or fewer ps
//   - core_copies.cc: second holders; core_hot_copies.cc: second holders in synchronous training
//   - core_rounds.cc: checkpoints; core_cuts.cc: the states of checkpoints in synchronous training
//
// What the core believes of progress is only advice. Before an epoch closes, the ledgers of all
// partitions, read in the present generation, have to show that every split of the epoch is done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "config/job.h"
#include "coordinator/core/agreement.h"
#include "coordinator/core/copies.h"
#include "coordinator/core/core_options.h"
#include "coordinator/core/cuts.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/epoch_history.h"
#include "coordinator/core/events.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/lane_leases.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/move.h"
#include "coordinator/core/rollback.h"
#include "coordinator/core/round_gaps.h"
#include "coordinator/core/stall_report.h"
#include "coordinator/core/summary_writer.h"

namespace paracord {

class CoordinatorCore {
 public:
  CoordinatorCore(CoreOptions options, FoundInDir found, int64_t now_ms);

  // Takes one event and returns what the shell is to do, in order. `now_ms` never decreases.
  std::vector<Effect> Step(int64_t now_ms, const Event& event);

  // Returns the state of the job after the newest step.
  JobView View() const;
  Phase phase() const { return phases_.now(); }
  uint64_t generation() const { return generation_.claimed(); }
  // Returns the task of an open session; "" if no open session has this id.
  std::string TaskOf(uint64_t session) const {
    const auto found = sessions_.all().find(session);
    return found == sessions_.all().end() ? "" : found->second.task;
  }

 private:
  void Handle(const TickEvent&);
  void Handle(const GenerationClaimedEvent& event);
  void Handle(const NewestGenerationEvent& event);
  void Handle(const JobStateWrittenEvent& event);
  void Handle(const SummaryWrittenEvent& event);
  void Handle(const DrainEvent& event);
  void Handle(const ScaleEvent& event);
  void Handle(const PsAnswerEvent& event);
  void Handle(const JoinEvent& event);
  void Handle(const WorkEvent& event);
  void Handle(const WorkerHoldEvent& event);
  void Handle(const WorkerHoldLostEvent& event);
  void Handle(const RoundDirectoryMadeEvent& event);
  void Handle(const RoundCommittedEvent& event);
  void Handle(const RoundGivenUpEvent& event);

  // core.cc
  void NoticeStop();
  void CheckStartDeadline();
  void SetPhase(Phase phase);
  void AdvanceEpoch();
  void BeginEpoch(const OpenEpoch& open, uint64_t begun);
  void EndJob(ExitCode code, const std::string& status, const std::string& reason);
  void FailJob(ExitCode code, const std::string& reason);
  void EndAfterCheckpoint(Ending ending);
  void Leave(ExitCode code, const std::string& reason, bool alone = false);

  // core_job.cc
  void BeginJob(const std::string& run_id, const JobFacts& facts, uint32_t devices);
  void BeginAnew(const JobFacts& facts, uint32_t devices);
  void NoteNumerics(const JoinRequest& request);
  bool PlaceLayout();
  void SaveJobState();
  uint64_t Recoveries() const;
  void SaveRecoveries();
  JobExtent Extent() const { return record_.Extent(evaluations_.stop()); }

  // core_ps.cc
  void DriveFormation();
  void ClaimNextGeneration(const std::string& why);
  void PsReady();
  void LoadOrAttach(uint32_t index);
  void ReadLedgers();
  // Whether waiting for missing ps can save training, so that the start-up deadline is off: all ps
  // were ready once, or a ps holds variables trained under an earlier coordinator.
  bool Living() const { return phases_.formed() || ps_.AnyHoldsRun(); }

  // core_move.cc
  absl::Status CheckThere(const ScaleRequest& request) const;
  absl::StatusOr<Move::Plan> PlanMove(const ScaleRequest& request) const;
  std::optional<std::string> NoRoom(const Move::Plan& plan) const;
  bool MayMoveBack(const ScaleRequest& request) const;
  void MoveBack(Move::Plan plan);
  bool MayCancelMove() const;
  void CancelMove(const ScaleEvent& event);
  // Why a ps that a move invites into the job has not joined yet (PsTracker::IsIn), whether it is
  // away, and whether waiting for it is futile.
  struct NotIn {
    std::string why;
    bool lost = false;
    bool for_ever = false;
  };
  std::optional<NotIn> DriveInvited();
  std::optional<std::string> Absent() const;
  void DriveMove();
  bool PrepareMove();
  // Returns an order to prepare partitions of the checkpoint. The caller adds the partitions and
  // the fence (run id, generation, boot id).
  LoadRequest PrepareOrder(const std::string& checkpoint) const;
  bool HasTables() const;
  void GiveUpMove(const std::string& why);
  void StopForMove();
  void ClaimForMove();
  // Whether this generation has no workers and only writes the checkpoint that ends a move.
  bool Closed() const {
    return move_.closed() && !generation_.claiming() && generation_.wanted().empty() &&
           std::ranges::all_of(ps_.invited(), [this](const Ps& ps) { return ps_.IsIn(ps); });
  }
  void TakeClosingCheckpoint(const CheckpointRound& round);
  bool IsClosing(const CheckpointName& checkpoint) const;
  void WriteLayoutOnceAllAnswer();
  void LayoutWritten(const absl::Status& status);
  void MoveAgain(const std::string& why);

  // core_copies.cc
  void DriveCopies(bool tick);
  void DriveGuests();
  std::vector<Standing> Standings() const;
  bool PromoteSeconds(bool unprepared);
  void WriteSeconds(Layout layout, bool promotes);
  void SecondsWritten();
  bool MayPlaceCopies() const;
  Layout LayoutNow() const;
  std::optional<Layout> WithSeconds(const std::function<bool(const Ps&)>& available) const;
  void PlaceCopies();
  void PrepareCopies();

  // core_hot_copies.cc
  bool MayFormWithoutAway() const;
  bool DecideHolders(std::optional<std::string>& why);
  bool LeaveOut(const std::vector<bool>& stays);
  bool GiveSeconds();
  std::vector<bool> Serving(uint64_t state) const;
  void HealCopies();

  // core_rollback.cc
  std::optional<std::string> WhyRollBack() const;
  bool DecideRollback();
  bool StateIsLost(const OpenEpoch& open, const std::vector<const Ledger*>& ledgers);

  // core_joins.cc
  void CannotTakePart(const JoinEvent& event);
  void TakeWithFacts(const JoinEvent& event);
  bool FactsMayChange() const;
  void TakeOtherFacts(const JoinEvent& event, const std::string& why);
  void OpenSession(CallId call, const JoinRequest& request);

  // core_workers.cc
  void EndSession(uint64_t id, const std::string& why, bool died);
  void TakeReports(WorkerSession& session, const WorkRequest& request);
  void CountReport(WorkerSession& session, const WorkRequest& request);
  void HandleLeaseReport(WorkerSession& session, const LeaseReport& report);
  void TakeScore(WorkerSession& session, const EvaluationReport& report);
  void AnswerWorker(WorkerSession& session, const WorkEvent& event);
  void FreeLostGrants(const WorkRequest& request);
  void NoteGrant(WorkerSession& session, const Lease& lease);
  void AddProofs(Lease& lease) const;
  bool TryGiveTask(WorkerSession& session, CallId call);
  bool WorkIsFree() const;
  void ServeParked(bool tick);

  // core_history.cc
  void RestoreHistory(const nlohmann::json& epochs, const nlohmann::json& open);
  void TakeTrained(WorkerSession& session, const WorkRequest& request);
  void CloseHistory(uint64_t epoch);
  void WarnOfMetrics(const std::string& task, uint64_t epoch);
  void NoteBatchesAgain(const OpenEpoch& open);

  // core_lanes.cc
  bool HasLanes() const { return record_.plan().lanes() > 0; }
  bool DealLanes(bool tick);
  void NoteAsks(WorkerSession& session);
  std::set<uint64_t> WithheldFrom(const WorkerSession& session) const;
  bool ExtendLanes(WorkerSession& session, WorkReply& reply);
  void SayEnds(const WorkerSession& session, WorkReply& reply);
  bool TryGiveLanes(WorkerSession& session, WorkReply& reply);
  using LaneFilter = std::function<bool(uint64_t lane, uint32_t round)>;
  LaneFilter LanesFor(const WorkerSession& session) const;
  uint32_t EndOfLeases() const { return LastRoundOfLanes().value_or(lane_leases_.end()); }
  std::optional<Lease> LeaseAgain(const WorkerSession& session);
  bool FreeStuckLanes();
  bool RoundIsOld() const;
  void DropUnfounded(const std::vector<uint32_t>& next);

  // core_failures.cc
  BatchId BatchOf(const LeaseState& lease) const;
  void CountFailure(const std::string& task, const LeaseState& lease, FailureKind kind,
                    const std::string& message);
  void ActOn(Failures::Verdict verdict, uint64_t split, ExitCode code);
  void NoteDeath(const WorkerSession& session, std::vector<LeaseState> leases,
                 const std::string& why);
  void JudgeDeaths();
  void CheckRejected();
  bool FailNotFinite();

  // core_rounds.cc
  void DriveRounds();
  void OnSnapshot(uint32_t index, const absl::StatusOr<PsReply>& reply);
  void FailRound(const std::string& why);
  bool MakeRoom(const std::string& why);
  uint32_t FullEvery() const;

  // core_cuts.cc
  // Whether training is to end, or to pause because a ps leaves or partitions move, with a
  // checkpoint of everything trained.
  bool EndIsPlanned() const { return end_.planned() || ps_.AnyDrains() || move_.holds_training(); }
  CutView ViewOfCut() const;
  void OrderSnapshots();
  void AskSnapshot(uint32_t index);
  void CheckCutAtEnd();
  void StatesRead();
  void RepeatRound(const std::string& why, int64_t after_ms);
  bool OfOtherState(uint32_t index, const SnapshotReply& reply);
  std::optional<uint32_t> LastRoundOfLanes() const;

  const CoreOptions options_;
  const Job& job_;
  int64_t now_ms_;
  int64_t ticked_ms_;  // when the newest tick came
  // When this coordinator started, or last found a checkpoint unusable if that was later.
  int64_t forms_since_ms_;
  Effects effects_;  // emitted by the current step
  Phases phases_;
  Shutdown end_;
  SummaryWriter summary_writer_{effects_};
  JobRecord record_;
  // The examples in the batches that the ledgers held when this coordinator first read them.
  std::optional<uint64_t> samples_found_;
  Generation generation_;
  PsTracker ps_;
  Sessions sessions_;
  StallReport stalls_;
  Throughput throughput_;
  Agreement agreement_;
  Refusals refusals_;
  Training training_;
  EpochHistory history_;
  LaneLeases lane_leases_;
  RoundGaps gaps_;
  Rollback rollback_;
  Evaluations evaluations_;
  Failures failures_;
  Checkpoints checkpoints_;
  CheckpointRounds rounds_;
  Cuts cuts_;
  Move move_;
  Copies copies_;
};

}  // namespace paracord
