// The coordinator's decisions as a pure state machine: (now, event) -> effects. It starts no
// thread, takes no lock, reads no clock and does no I/O; the shell (coordinator.h) and the
// simulator feed it, each event as it comes, on one thread.
//
// What there is to know lives in the types below, each with its own invariants. The core says the
// phases of the job, hands events on and acts on what comes back: core.cc (the loop, the phases and
// the end), core_job.cc (what the job is), core_ps.cc (the cluster forms), core_joins.cc and
// core_workers.cc (workers), core_failures.cc (batches that fail), core_rounds.cc (checkpoints),
// status.cc (what people are told).
//
// Its view of progress is advice. Whether a split or an epoch is done is read from the
// ledgers of all partitions, in this generation, before the epoch closes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "config/job.h"
#include "coordinator/core/agreement.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/core_options.h"
#include "coordinator/core/departure.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/events.h"
#include "coordinator/core/failures.h"
#include "coordinator/core/generation.h"
#include "coordinator/core/job_extent.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/last_word.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/phases.h"
#include "coordinator/core/ps_tracker.h"
#include "coordinator/core/refusals.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/sessions.h"
#include "coordinator/core/state_writer.h"
#include "coordinator/core/throughput.h"
#include "coordinator/core/training.h"
#include "storage/checkpoint.h"

namespace paracord {

// Why a job cannot go on that is to have fewer batches than `where` it has come to.
std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where);

class CoordinatorCore {
 public:
  CoordinatorCore(CoreOptions options, FoundInDir found, int64_t now_ms);

  // Takes one event and returns what the shell is to do for it, in order. Time never goes back.
  std::vector<Effect> Step(int64_t now_ms, const Event& event);

  // For `paracord status`; keys in status.cc.
  std::string StatusJson(int64_t now_ms) const;
  // For charts: the newest of the training, and the results of evaluation `index` and later.
  Chart TrainingChart(int64_t now_ms) const;
  std::vector<Chart> EvaluationCharts(size_t index) const;
  // How many results of evaluations people may be told.
  size_t evaluations() const { return evaluations_.told().size(); }

  using Phase = ::paracord::Phase;
  Phase phase() const { return phases_.now(); }
  uint64_t generation() const { return generation_.claimed(); }

 private:
  // Over the partitions, as far as the newest descriptions tell.
  struct LedgerCounts {
    uint64_t batches = 0;  // to be entered in all
    uint64_t applied_min = 0;
    uint64_t applied_max = 0;
    uint64_t rejected = 0;
    uint64_t samples = 0;  // of applied batches, once
    bool healthy = true;
  };

  // core.cc
  void Handle(const TickEvent&);
  void CheckStartDeadline();
  void Handle(const GenerationClaimedEvent& event);
  void Handle(const SummaryWrittenEvent& event);
  void Handle(const NewestGenerationEvent& event);
  void Handle(const DrainEvent& event);
  void AdvanceEpoch();
  void BeginEpoch(const OpenEpoch& open, uint64_t begun);
  void StartFinishing();
  void EndJob(ExitCode code, const std::string& status, const std::string& reason);
  void FailJob(ExitCode code, const std::string& reason);
  void EndAfterCheckpoint(Ending ending);
  void Leave(ExitCode code, const std::string& reason, bool alone = false);
  void SetPhase(Phase phase);

  // core_job.cc
  void Handle(const JobStateWrittenEvent& event);
  void FixJob(const JobFacts& facts);
  absl::Status PlaceLayout();
  void SaveJobState();
  std::optional<std::string> FactsDiffer(const JobFacts& facts) const;
  JobExtent Extent() const { return {job_, state_.plan, evaluations_.stop()}; }

  // core_ps.cc
  void Handle(const PsAnswerEvent& event);
  void DriveFormation();
  void ClaimNextGeneration(const std::string& why);
  void PsReady();
  void LoadOrAttach(uint32_t index);
  void ReadLedgers();
  // All ps were ready once, or one holds what a coordinator before this one has trained: it is
  // worth waiting for the others, and the start-up deadline does not apply.
  bool Living() const { return phases_.formed() || ps_.AnyHoldsRun(); }
  std::string MissingTasks() const;
  void SayWhoIsMissing();

  // core_workers.cc
  void Handle(const JoinEvent& event);
  void Handle(const WorkEvent& event);
  void Handle(const WorkerHoldEvent& event);
  void Handle(const WorkerHoldLostEvent& event);
  void RefuseJoin(CallId call, ExitCode code, const std::string& reason, std::string logged);
  void OpenSession(CallId call, const JoinRequest& request);
  void CannotTakePart(const JoinEvent& event);
  void TakeWithFacts(const JoinEvent& event);
  std::optional<std::string> FixJobIfAgreed(const JoinRequest& request);
  void TakeReports(WorkerSession& session, const WorkRequest& request);
  void AnswerWorker(WorkerSession& session, const WorkEvent& event);
  void CountReport(WorkerSession& session, const WorkRequest& request);
  void FreeLostGrants(const WorkRequest& request);
  void TakeScore(WorkerSession& session, const EvaluationReport& report);
  void HandleLeaseReport(WorkerSession& session, const LeaseReport& report);
  bool TryGiveTask(WorkerSession& session, CallId call);
  bool WorkIsFree() const;
  void ServeParked(bool tick);
  void DriveSessions();
  void NoticeStop();
  void EndSession(uint64_t id, const std::string& why, bool died);
  void EndAllSessions(const std::string& why);
  std::string WaitReason() const;
  std::string Stalls(int64_t now_ms) const;
  std::string Waiting(int64_t now_ms) const;
  void SayStalls();

  // core_failures.cc
  void CountFailure(const std::string& task, const LeaseState& lease, FailureKind kind,
                    const std::string& message);
  void ActOn(Failures::Verdict verdict, uint64_t split, ExitCode code);
  void NoteDeath(const WorkerSession& session, std::vector<LeaseState> leases,
                 const std::string& why);
  void JudgeDeaths();
  void CheckRejected();
  bool FailNotFinite();

  // core_rounds.cc
  void Handle(const RoundDirectoryMadeEvent& event);
  void Handle(const RoundCommittedEvent& event);
  void DriveRounds();
  CheckpointName NewestCheckpoint() const;
  void OnSnapshot(uint32_t index, const absl::StatusOr<PsReply>& reply);
  void FailRound(const std::string& why);
  Manifest RoundManifest() const;
  const Manifest* BestCheckpoint() const;
  std::string KeptForBest() const;
  bool LacksBestCheckpoint(uint64_t epoch) const;
  void Remove(std::vector<std::string> checkpoints);
  void MakeRoom(const std::string& why);

  // status.cc
  std::string SummaryText(const std::string& status, const std::string& reason) const;
  std::string DoneReason() const;
  JobCounters CountersNow(const LedgerCounts& counts) const;
  LedgerCounts Counts() const;
  uint64_t BatchesDone(const LedgerCounts& counts) const;

  template <class T>
  void Emit(T effect) {
    effects_.Emit(std::move(effect));
  }
  void Info(std::string text) { Emit(Log{Log::Level::kInfo, std::move(text)}); }
  void Warn(std::string text) { Emit(Log{Log::Level::kWarning, std::move(text)}); }
  void Error(std::string text) { Emit(Log{Log::Level::kError, std::move(text)}); }

  const CoreOptions options_;
  const Job& job_;
  int64_t now_ms_;
  Effects effects_;  // of the step under way
  Phases phases_;
  int64_t forms_since_ms_;  // the start, or when a checkpoint was last found unusable
  int64_t say_missing_at_ms_;
  std::optional<uint64_t> samples_found_;  // in the ledgers, when this life first read them
  Departure end_;
  LastWord last_word_{effects_};

  bool job_fixed_ = false;  // the first workers have told what is in the files, and it is saved
  JobState state_;          // without what the types below save
  uint64_t job_fingerprint_ = 0;  // of state_.job_json
  StateWriter writer_;

  Generation generation_;
  PsTracker ps_;
  int64_t ticked_ms_;  // when this coordinator last ran for sure
  Sessions sessions_;
  Throughput throughput_;
  std::string stalls_said_;  // without numbers
  Agreement agreement_;
  Refusals refusals_;
  Training training_;
  Evaluations evaluations_;
  Failures failures_;
  Checkpoints checkpoints_;
  Rounds rounds_;
};

}  // namespace paracord
