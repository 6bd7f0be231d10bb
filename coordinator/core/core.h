// The coordinator's decisions as a pure state machine: (now, event) -> effects. It starts no
// thread, takes no lock, reads no clock and does no I/O; the shell (coordinator.h) and the
// simulator feed it. Its parts: core.cc (the loop and the end of the job), core_job.cc (what the
// job is), core_ps.cc (the cluster forms), core_joins.cc and core_workers.cc (workers),
// core_failures.cc (batches that fail), core_rounds.cc (checkpoints), status.cc.
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
#include "coordinator/core/effects.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/events.h"
#include "coordinator/core/failures.h"
#include "coordinator/core/generation.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/ps_tracker.h"
#include "coordinator/core/refusals.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/sessions.h"
#include "coordinator/core/split_table.h"
#include "coordinator/core/throughput.h"
#include "storage/checkpoint.h"

namespace paracord {

// Why a job cannot go on that is to have fewer batches than `where` it has come to.
std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where);

class CoordinatorCore {
 public:
  CoordinatorCore(CoreOptions options, FoundInDir found, int64_t now_ms);

  std::vector<Effect> Step(int64_t now_ms, const Event& event);

  // For `paracord status`; keys in status.cc.
  std::string StatusJson(int64_t now_ms) const;
  // For charts: the newest of the training, and the results of evaluation `index` and later.
  Chart TrainingChart(int64_t now_ms) const;
  std::vector<Chart> EvaluationCharts(size_t index) const;
  // How many results of evaluations people may be told.
  size_t evaluations() const { return evaluations_.told().size(); }

  enum class Phase { kForming, kLoading, kTraining, kEvaluating, kFinishing, kEnded };
  Phase phase() const { return phase_; }
  uint64_t generation() const { return generation_.claimed(); }

 private:
  // How a job ends before it is done.
  struct Ending {
    ExitCode code = ExitCode::kDrained;
    std::string status;  // as in summary.json
    std::string reason;
  };

  // Over the partitions, as far as the newest descriptions tell.
  struct LedgerCounts {
    uint64_t batches = 0;  // to be entered in all
    uint64_t applied_min = 0;
    uint64_t applied_max = 0;
    uint64_t rejected = 0;
    uint64_t samples = 0;  // of applied batches, once
    bool healthy = true;
  };

  // An epoch that some partition lacks a batch of, and for each of its splits the first such batch.
  struct OpenEpoch {
    uint64_t epoch = 0;
    std::vector<uint32_t> next;
  };

  // core.cc
  void Handle(const TickEvent&);
  void CheckStartDeadline();
  void Handle(const GenerationClaimedEvent& event);
  void Handle(const SummaryWrittenEvent& event);
  void Handle(const NewestGenerationEvent& event);
  void Handle(const DrainEvent& event);
  OpenEpoch FirstOpenEpoch(const std::vector<const Ledger*>& ledgers) const;
  void AdvanceEpoch();
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
  uint64_t TotalBatches() const;
  uint64_t TotalEpochs() const;  // until the stop decision, where there is one
  uint64_t BatchesOfEpoch(uint64_t epoch) const;
  uint64_t BatchesUpTo(uint64_t epochs) const;

  // core_ps.cc
  void Handle(const PsAnswerEvent& event);
  void DriveFormation();
  void ClaimNextGeneration(const std::string& why);
  void PsReady();
  void LoadOrAttach(uint32_t index);
  void ReadLedgers();
  bool Living() const;
  bool AllAsked() const;
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
  bool MayBePushed(uint64_t split) const;
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
  const int64_t started_ms_;
  int64_t now_ms_ = 0;
  Effects effects_;  // of the step under way

  Phase phase_ = Phase::kForming;
  int64_t phase_since_ms_ = 0;
  int64_t forms_since_ms_;  // the start, or when a checkpoint was last found unusable
  int64_t say_missing_at_ms_;
  int64_t training_ms_ = 0;  // in phase kTraining, this life, without the phase under way
  std::optional<uint64_t> samples_found_;  // in the ledgers, when this life first read them
  std::optional<int64_t> formed_ms_;       // when all ps were first ready in this life
  // Set once the job is to end as soon as a checkpoint is taken, by SIGTERM or because it failed.
  std::optional<Ending> ending_;
  int64_t ending_deadline_ms_ = 0;

  // Fixed once the first worker has told what is in the files; survives in job.state.
  bool job_fixed_ = false;
  JobState state_;
  uint64_t job_fingerprint_ = 0;             // of state_.job_json
  bool summary_pending_ = false;             // the last word of a job that failed or was drained
  std::optional<std::string> held_summary_;  // that word, until a claim under way has ended
  bool save_pending_ = false;                // a WriteJobState is under way
  bool save_again_ = false;
  int64_t save_at_ms_ = 0;    // after a write that failed
  std::string save_problem_;  // of the newest write; empty: none

  Generation generation_;
  PsTracker ps_;

  int64_t ticked_ms_;  // when this coordinator last ran for sure
  Sessions sessions_;
  Throughput throughput_;
  std::string stalls_said_;  // without numbers
  Agreement agreement_;
  Refusals refusals_;

  std::optional<SplitTable> table_;
  uint64_t epochs_closed_ = 0;
  Evaluations evaluations_;
  Failures failures_;
  std::set<uint64_t> abandoned_;  // splits of which a push may be on its way, in this generation

  Checkpoints checkpoints_;
  Rounds rounds_;
  bool complete_committed_ = false;
  std::string done_summary_;
  uint32_t summary_tries_ = 0;
  int64_t summary_at_ms_ = 0;  // after a write that failed; 0: none did
  int64_t ended_ms_ = 0;
  bool leaves_alone_ = false;  // such as drained: workers and ps stay for the next coordinator
  std::optional<Exit> exit_;   // of a job that has ended
  bool exited_ = false;        // it has been told
};

}  // namespace paracord
