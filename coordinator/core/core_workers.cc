// Worker sessions, the tasks that they get, and failed batches.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "config/data_plan.h"
#include "config/proofs.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

constexpr uint32_t kBenchAfter = 3;
constexpr int kLateLanesMax = 16;       // a ps's answer names at most as many
constexpr int64_t kUnscoredMs = 1000;   // the pause after a range that could not be scored
constexpr int64_t kMisreportMs = 1000;  // the pause after an impossible report

}  // namespace

void CoordinatorCore::Handle(const WorkerHoldEvent& event) {
  WorkerSession* const session = sessions_.TakeHold(event, now_ms_);
  if (session == nullptr) return;
  if (end_.told()) {
    sessions_.Told(session->task);
    return effects_.Emit(AnswerHold{event.call, LeaveReply<WorkerHoldReply>(end_.exit())});
  }
  session->hold = event.call;
}

void CoordinatorCore::Handle(const WorkerHoldLostEvent& event) {
  if (!sessions_.LoseHold(event)) return;
  EndSession(event.session, "its connection broke", sessions_.BreaksAreDeaths(now_ms_));
}

void CoordinatorCore::Handle(const WorkEvent& event) {
  const WorkRequest& request = event.request;
  // If only this coordinator leaves, workers wait for the next one.
  const bool ended = end_.told();
  WorkerSession* const session = sessions_.Find(request.session());
  if (session == nullptr) {
    WorkReply reply;
    if (ended) {
      reply = LeaveReply<WorkReply>({end_.exit().code, "the job has ended"});
    } else {
      reply.set_rejoin("no such session");
    }
    return effects_.Emit(AnswerWork{event.call, std::move(reply)});
  }
  TakeReports(*session, request);
  AnswerWorker(*session, event);
}

// Takes the reports that come with a worker's request for a task.
void CoordinatorCore::TakeReports(WorkerSession& session, const WorkRequest& request) {
  session.last_seen_ms = now_ms_;
  session.waits_for = OneLine(request.waits_for(), kSendableBytesMax);
  if (sessions_.IsNewReport(session, request.report())) CountReport(session, request);
  if (session.parked.has_value()) {  // a new request before the last was answered
    effects_.Emit(AnswerWork{*std::exchange(session.parked, std::nullopt), WorkReply()});
  }
  for (const LeaseReport& report : request.leases()) HandleLeaseReport(session, report);
  const int late = std::min(request.late_size(), kLateLanesMax);
  session.late.assign(request.late().begin(), request.late().begin() + late);
  if (request.has_evaluation() && evaluations_.running()) TakeScore(session, request.evaluation());
  if (evaluations_.FinishIfDone()) {
    rounds_.NewResult();
    SaveJobState();
  }
  CheckRejected();
}

void CoordinatorCore::AnswerWorker(WorkerSession& session, const WorkEvent& event) {
  const WorkRequest& request = event.request;
  if (end_.told()) {
    sessions_.Told(session.task);
    return effects_.Emit(AnswerWork{event.call, LeaveReply<WorkReply>(end_.exit())});
  }
  if (request.leaving()) {
    const uint64_t id = session.id;
    effects_.Emit(AnswerWork{event.call, WorkReply()});
    return EndSession(id, "it leaves", false);
  }
  if (phases_.ended()) {  // it hears nothing until its connection breaks
    session.parked = event.call;
    return;
  }
  if (HasLanes() && training_.table() != nullptr) lane_leases_.MoveOn(*training_.table(), now_ms_);
  if (!request.want_task()) {
    WorkReply reply;
    ExtendLanes(session, reply);
    return effects_.Emit(AnswerWork{event.call, std::move(reply)});
  }
  NoteAsks(session);
  FreeLostGrants(request);
  if (!TryGiveTask(session, event.call)) sessions_.Park(session, event.call, now_ms_);
}

void CoordinatorCore::TakeScore(WorkerSession& session, const EvaluationReport& report) {
  const Evaluations::ReportOutcome taken = evaluations_.Report(session.id, report);
  const std::string why(taken.status.message());
  if (!taken.status.ok()) {
    effects_.Warn(absl::StrCat(session.task, ": ", why));
    session.backoff_until_ms = now_ms_ + kUnscoredMs;
  }
  if (taken.hopeless && !end_.planned()) {
    EndAfterCheckpoint({taken.limit ? ExitCode::kConfiguration : ExitCode::kFailed, "failed", why});
  }
}

void CoordinatorCore::CountReport(WorkerSession& session, const WorkRequest& request) {
  const double elapsed = static_cast<double>(now_ms_ - session.counted_ms) / 1000;
  const absl::Status fits = session.work.Add(request, record_.plan(), Extent().batches(), elapsed);
  if (!fits.ok()) {
    if (!std::exchange(session.miscounts, true)) {
      effects_.Warn(absl::StrCat(session.task, ": ", std::string(fits.message())));
    }
    return;
  }
  throughput_.Count(request, now_ms_);
  if (session.work.computed > request.computed()) {
    throughput_.CountSteps(request, elapsed, sessions_.all().size(), session.devices);
  }
  session.counted_ms = now_ms_;
  TakeTrained(session, request);
  session.batch_time.Add(request.computed(), std::min(request.compute_seconds(), elapsed));
  const double waited = std::min(request.waited_seconds(), elapsed);
  record_.counters().waited_ms += static_cast<uint64_t>(waited * 1000);
  record_.counters().computed += request.computed();
  record_.counters().duplicates += request.duplicates();
  if (request.program_losses() > 0) {
    constexpr uint64_t kLossesMost = 16;  // believed between two reports
    record_.counters().program_losses += std::min(request.program_losses(), kLossesMost);
    failures_.NoteLoss(session.task, OneLine(request.program_lost(), kSendableBytesMax));
  }
  if (request.samples() > 0 && record_.counters().first_step_ms < 0) {
    record_.counters().first_step_ms = now_ms_ - phases_.started_ms();
  }
}

// A worker asks for one task at a time and names the leases that it holds. Other leases were
// granted in answers that never arrived: they are freed.
void CoordinatorCore::FreeLostGrants(const WorkRequest& request) {
  const std::set<uint64_t> held(request.holds().begin(), request.holds().end());
  bool any = evaluations_.EndSession(request.session(), held);
  if (!training_.EndSession(request.session(), held).empty()) any = true;
  if (any) PROBE("coordinator.grant.lost");
}

void CoordinatorCore::NoteGrant(WorkerSession& session, const Lease& lease) {
  session.work.Grant(lease);
  const uint64_t splits_before = lease.epoch() * SplitsPerEpoch(record_.plan());
  sessions_.GivenTo(session.task).Add(splits_before + lease.split());
}

void CoordinatorCore::HandleLeaseReport(WorkerSession& session, const LeaseReport& report) {
  if (training_.table() == nullptr) return;
  LeaseState* const found = training_.table()->Find(report.lease());
  if (found == nullptr || found->session != session.id) return;
  const bool failed = report.problem() == PROBLEM_DATA || report.problem() == PROBLEM_NONFINITE ||
                      report.problem() == PROBLEM_SHAPE || report.problem() == PROBLEM_LIMIT;
  // A failure concerns batch `next`; if that batch does not exist, the report is ignored.
  const uint32_t next = std::max(report.next(), found->next);
  if (next > found->end || (failed && next == found->end)) {
    if (!std::exchange(session.misreports, true)) {
      effects_.Warn(absl::StrCat(session.task, " reports batch ", next, " of a split of ",
                                 found->end, " batches; such reports are ignored"));
    }
    training_.Abandon(found->split);
    session.backoff_until_ms = now_ms_ + kMisreportMs;
    if (report.ended()) training_.table()->End(report.lease());
    return;
  }
  if (report.next() > found->next) {
    session.failures_in_a_row = 0;
    found->progress_ms = now_ms_;
  }
  training_.table()->Progress(*found, report.next());
  const LeaseState lease = *found;
  if (report.ended()) training_.table()->End(report.lease());
  // With any other problem a push, or a copy of one, may still be in flight.
  const bool nothing_sent = report.problem() == PROBLEM_NONE || report.problem() == PROBLEM_DATA ||
                            report.problem() == PROBLEM_NONFINITE;
  if (!nothing_sent) training_.Abandon(lease.split);
  const std::string said = OneLine(report.message(), kSendableBytesMax);
  switch (report.problem()) {
    case PROBLEM_GAP:
      if (job_.guarantees.sync() && report.ended()) {
        // Ledgers may have moved the lease past the batch that the worker reports.
        BatchId batch = BatchOf(lease);
        batch.set_batch(std::min(report.next(), lease.next));
        gaps_.Note(batch, session.id);
      }
      ps_.WantLedgers();
      break;
    case PROBLEM_DATA:
      CountFailure(session.task, lease, FailureKind::kData, said);
      break;
    case PROBLEM_NONFINITE:
      CountFailure(session.task, lease, FailureKind::kNonFinite, said);
      break;
    case PROBLEM_SHAPE:
      CountFailure(session.task, lease, FailureKind::kShape, said);
      break;
    case PROBLEM_LIMIT:
      CountFailure(session.task, lease, FailureKind::kLimit, said);
      break;
    default:  // such as an unreachable ps or a stale fence: no fault of the batch
      break;
  }
  if (failed && ++session.failures_in_a_row >= kBenchAfter && sessions_.all().size() > 1) {
    sessions_.Rest(session, now_ms_,
                   absl::StrCat("failed ", session.failures_in_a_row, " times in a row"));
  }
  if (report.problem() == PROBLEM_UNREACHABLE) session.backoff_until_ms = now_ms_ + 200;
}

// Adds the proof, for the ps, that this coordinator leased the split, and the batches to enter
// without gradients.
void CoordinatorCore::AddProofs(Lease& lease) const {
  lease.set_proof(
      LeaseProofOf(options_.proof_key, generation_.claimed(), lease.epoch(), lease.split()));
  for (const uint32_t number : failures_.counts().Rejected(lease.epoch(), lease.split())) {
    BatchId batch;
    batch.set_epoch(lease.epoch());
    batch.set_split(lease.split());
    batch.set_batch(number);
    lease.add_rejected(number);
    lease.add_rejections(RejectionOf(options_.proof_key, batch));
  }
}

// Answers `call` if there is work for this session.
bool CoordinatorCore::TryGiveTask(WorkerSession& session, CallId call) {
  if (!ps_.AllAre(PsState::kReady) || session.backoff_until_ms > now_ms_) return false;
  // In synchronous training lanes go on to the cut for which the end waits.
  const bool to_cut = job_.guarantees.sync() && phases_.training();
  if (end_.planned() && phases_.now() != Phase::kFinishing && !to_cut) return false;
  WorkReply reply;
  if (phases_.now() == Phase::kEvaluating) {
    std::optional<EvaluationLease> lease = evaluations_.Grant(sessions_.next_id(), session.id);
    if (!lease.has_value()) return false;
    *reply.mutable_evaluation() = *std::move(lease);
  } else if (phases_.training() && training_.table() != nullptr) {
    if (HasLanes()) {
      if (!TryGiveLanes(session, reply)) return false;
      effects_.Emit(AnswerWork{call, std::move(reply)});
      return true;
    }
    if (training_.table()->LeasesOf(session.id) >= kLeasesOfSessionMax) return false;
    const std::set<uint64_t> withheld = WithheldFrom(session);
    std::optional<Lease> lease =
        training_.table()->Grant(sessions_.next_id(), session.id, now_ms_, withheld);
    if (!lease.has_value()) {
      lease = training_.table()->GrantAgain(sessions_.next_id(), session.id, now_ms_, kStragglerMs,
                                            withheld);
      if (lease.has_value()) PROBE("coordinator.lease.straggler");
    }
    if (!lease.has_value()) return false;
    AddProofs(*lease);
    NoteGrant(session, *lease);
    *reply.mutable_lease() = *std::move(lease);
  } else {
    return false;
  }
  sessions_.TakeId();
  effects_.Emit(AnswerWork{call, std::move(reply)});
  return true;
}

bool CoordinatorCore::WorkIsFree() const {
  if (phases_.now() == Phase::kEvaluating) return evaluations_.HasFree();
  const bool open = phases_.training() && training_.table() != nullptr;
  return open && !HasLanes() && training_.table()->HasFree();  // lanes are dealt out by DealLanes
}

// Runs after every event, because work may have become free or complete. Changes by time alone (an
// old lease to grant again, the end of a rest) are looked for at ticks only, because there may be
// thousands of workers and events.
void CoordinatorCore::ServeParked(bool tick) {
  if (phases_.training() && training_.table() != nullptr && ps_.AllAre(PsState::kReady) &&
      (training_.table()->AllDone() || ps_.LedgersDue(now_ms_) ||
       (tick && (FreeStuckLanes() || RoundIsOld())))) {
    ReadLedgers();
  }
  const bool lanes = HasLanes() && DealLanes(tick);
  sessions_.ServeParked(
      now_ms_, [&] { return tick || lanes || WorkIsFree(); },
      [this](WorkerSession& session, CallId call) { return TryGiveTask(session, call); },
      [this](const WorkerSession& session) {
        WorkReply reply;
        reply.set_wait(WaitReason(View()));
        SayEnds(session, reply);
        return reply;
      });
}

void CoordinatorCore::EndSession(uint64_t id, const std::string& why, bool died) {
  const std::optional<WorkerSession> session = sessions_.Close(id, why, !phases_.ended());
  if (!session.has_value()) return;
  if (died) ++record_.counters().worker_recoveries;
  evaluations_.EndSession(id);
  std::vector<LeaseState> leases = training_.EndSession(id);
  if (!died || leases.empty() || !phases_.training()) return;
  if (ps_.AllAre(PsState::kReady)) NoteDeath(*session, std::move(leases), why);
}

}  // namespace paracord
