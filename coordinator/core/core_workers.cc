// Sessions of workers, what they are given to do, and what becomes of batches that fail.
#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/mutant.h"
#include "common/one_line.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

constexpr uint32_t kBenchAfter = 3;
constexpr int64_t kStragglerMs = 5000;        // a lease this old may be given to a second worker
constexpr int64_t kUnscoredMs = 1000;         // no piece after one that could not be scored
constexpr int64_t kMisreportMs = 1000;        // no lease after a report that cannot be
constexpr int64_t kStoppedMs = 10 * kTickMs;  // without a tick
constexpr int64_t kSilentMs = 2000;           // of a ps, until it is said
constexpr size_t kStallsMax = 8;              // said one by one

}  // namespace

void CoordinatorCore::Handle(const WorkerHoldEvent& event) {
  WorkerSession* const session = sessions_.TakeHold(event, now_ms_);
  if (session == nullptr) return;
  if (end_.told()) {
    sessions_.Told(session->task);
    return Emit(AnswerHold{event.call, LeaveReply<WorkerHoldReply>(end_.exit())});
  }
  session->hold = event.call;
}

void CoordinatorCore::Handle(const WorkerHoldLostEvent& event) {
  if (!sessions_.LoseHold(event)) return;
  EndSession(event.session, "its connection broke", sessions_.BreaksAreDeaths(now_ms_));
}

void CoordinatorCore::Handle(const WorkEvent& event) {
  const WorkRequest& request = event.request;
  // If only this coordinator leaves, the workers stay for the next one.
  const bool ended = end_.told();
  WorkerSession* const session = sessions_.Find(request.session());
  if (session == nullptr) {
    WorkReply reply;
    if (ended) {
      reply = LeaveReply<WorkReply>({end_.exit().code, "the job has ended"});
    } else {
      reply.set_rejoin("no such session");
    }
    return Emit(AnswerWork{event.call, std::move(reply)});
  }
  TakeReports(*session, request);
  AnswerWorker(*session, event);
}

// Takes what a worker tells beside its wish for a task.
void CoordinatorCore::TakeReports(WorkerSession& session, const WorkRequest& request) {
  session.last_seen_ms = now_ms_;
  session.waits_for = OneLine(request.waits_for(), kSendableBytesMax);
  if (sessions_.IsNewReport(session, request.report())) CountReport(session, request);
  if (session.parked.has_value()) {  // it asked again before it was answered
    Emit(AnswerWork{*std::exchange(session.parked, std::nullopt), WorkReply()});
  }
  for (const LeaseReport& report : request.leases()) HandleLeaseReport(session, report);
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
    return Emit(AnswerWork{event.call, LeaveReply<WorkReply>(end_.exit())});
  }
  if (request.leaving()) {
    const uint64_t id = session.id;
    Emit(AnswerWork{event.call, WorkReply()});
    return EndSession(id, "it leaves", false);
  }
  if (phases_.ended()) {  // it hears of nothing until its connection breaks
    session.parked = event.call;
    return;
  }
  if (!request.want_task()) return Emit(AnswerWork{event.call, WorkReply()});
  if (!MUTANT("lost_grant_is_kept")) FreeLostGrants(request);
  if (!TryGiveTask(session, event.call)) sessions_.Park(session, event.call, now_ms_);
}

void CoordinatorCore::TakeScore(WorkerSession& session, const EvaluationReport& report) {
  const Evaluations::Taken taken = evaluations_.Report(report);
  const std::string why(taken.status.message());
  if (!taken.status.ok()) {
    Warn(absl::StrCat(session.task, ": ", why));
    session.benched_until_ms = now_ms_ + kUnscoredMs;
  }
  if (taken.hopeless && !end_.planned()) {
    EndAfterCheckpoint({ExitCode::kFailed, "failed", why});
  }
}

void CoordinatorCore::CountReport(WorkerSession& session, const WorkRequest& request) {
  throughput_.Count(request, now_ms_);
  session.computed += request.computed();
  session.samples += request.samples();
  session.staleness_sum += request.staleness_sum();
  state_.counters.computed += request.computed();
  state_.counters.duplicates += request.duplicates();
  if (request.samples() > 0 && state_.counters.first_step_ms < 0) {
    state_.counters.first_step_ms = now_ms_ - phases_.started_ms();
  }
}

// A worker asks for one task at a time and names what it has: the rest of its grants went with
// answers that it never got.
void CoordinatorCore::FreeLostGrants(const WorkRequest& request) {
  const std::set<uint64_t> held(request.holds().begin(), request.holds().end());
  bool any = evaluations_.EndSession(request.session(), held);
  if (!training_.EndSession(request.session(), held).empty()) any = true;
  if (any) PROBE("coordinator.grant.lost");
}

void CoordinatorCore::HandleLeaseReport(WorkerSession& session, const LeaseReport& report) {
  if (training_.table() == nullptr) return;
  const LeaseState* found = training_.table()->Find(report.lease());
  if (found == nullptr || found->session != session.id) return;
  const bool failed = report.problem() == PROBLEM_DATA || report.problem() == PROBLEM_NONFINITE ||
                      report.problem() == PROBLEM_SHAPE;
  // A failure is one of batch `next`, and a batch that is not there fails no job.
  const uint32_t next = std::max(report.next(), found->next);
  if (next > found->end || (failed && next == found->end)) {
    if (!std::exchange(session.misreports, true)) {
      Warn(absl::StrCat(session.task, " reports batch ", next, " of a split of ", found->end,
                        " batches; such reports are ignored"));
    }
    training_.Abandon(found->split);
    session.benched_until_ms = now_ms_ + kMisreportMs;
    if (report.ended()) training_.table()->End(report.lease());
    return;
  }
  if (report.next() > found->next) session.failures_in_a_row = 0;
  training_.table()->Progress(report.lease(), report.next());
  const LeaseState lease = *training_.table()->Find(report.lease());
  if (report.ended()) training_.table()->End(report.lease());
  // In all other cases a push, or a copy of one, may still be on its way.
  const bool nothing_sent = report.problem() == PROBLEM_NONE || report.problem() == PROBLEM_DATA ||
                            report.problem() == PROBLEM_NONFINITE;
  if (!nothing_sent) training_.Abandon(lease.split);
  const std::string said = OneLine(report.message(), kSendableBytesMax);
  switch (report.problem()) {
    case PROBLEM_GAP:
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
    default:  // unreachable ps, stale fence, drained: nothing is wrong with the batch
      break;
  }
  if (failed && ++session.failures_in_a_row >= kBenchAfter && sessions_.all().size() > 1) {
    sessions_.Rest(session, now_ms_);
  }
  if (report.problem() == PROBLEM_UNREACHABLE) session.benched_until_ms = now_ms_ + 200;
}

// Answers `call` if there is something to do for this worker.
bool CoordinatorCore::TryGiveTask(WorkerSession& session, CallId call) {
  if (!ps_.AllAre(PsStage::kReady) || session.benched_until_ms > now_ms_) return false;
  if (end_.planned() && phases_.now() != Phase::kFinishing) return false;
  WorkReply reply;
  if (phases_.now() == Phase::kEvaluating) {
    std::optional<EvaluationLease> lease = evaluations_.Grant(sessions_.next_id(), session.id);
    if (!lease.has_value()) return false;
    *reply.mutable_evaluation() = *std::move(lease);
  } else if (phases_.training() && training_.table() != nullptr) {
    const std::set<uint64_t> withheld = failures_.Withheld(training_.table()->epoch(), session.task,
                                                           sessions_.all().size() > 1, now_ms_);
    std::optional<Lease> lease =
        training_.table()->Grant(sessions_.next_id(), session.id, now_ms_, withheld);
    if (!lease.has_value()) {
      lease = training_.table()->GrantAgain(sessions_.next_id(), session.id, now_ms_, kStragglerMs,
                                            withheld);
      if (lease.has_value()) PROBE("coordinator.lease.straggler");
    }
    if (!lease.has_value()) return false;
    for (const uint32_t batch : failures_.counts().Rejected(lease->epoch(), lease->split())) {
      lease->add_rejected(batch);
    }
    *reply.mutable_lease() = *std::move(lease);
  } else {
    return false;
  }
  sessions_.TakeId();
  Emit(AnswerWork{call, std::move(reply)});
  return true;
}

bool CoordinatorCore::WorkIsFree() const {
  if (phases_.now() == Phase::kEvaluating) return evaluations_.HasFree();
  return phases_.training() && training_.table() != nullptr && training_.table()->HasFree();
}

// After every event: something may have become free, or complete. What time alone brings (an old
// lease given again, the end of a rest) is looked for at ticks, because there may be thousands of
// workers and events.
void CoordinatorCore::ServeParked(bool tick) {
  if (phases_.training() && training_.table() != nullptr && ps_.AllAre(PsStage::kReady) &&
      (training_.table()->AllDone() || ps_.LedgersDue(now_ms_))) {
    ReadLedgers();
  }
  sessions_.ServeParked(
      now_ms_, [&] { return tick || WorkIsFree(); },
      [this](WorkerSession& session, CallId call) { return TryGiveTask(session, call); },
      [this] { return WaitReason(); });
}

// This coordinator did not run: its process was stopped, or its machine, or the loop was busy. It
// could hear nobody meanwhile, so nobody was silent, and connections broke from its own silence.
void CoordinatorCore::NoticeStop() {
  const int64_t stopped_ms = now_ms_ - ticked_ms_;
  if (stopped_ms < kStoppedMs) return;
  PROBE("coordinator.stopped");
  ticked_ms_ = now_ms_;
  sessions_.Forgive(stopped_ms, now_ms_);
  ps_.Forgive(stopped_ms, now_ms_);
  forms_since_ms_ += stopped_ms;
}

void CoordinatorCore::DriveSessions() {
  const int64_t silent_ms = job_.timeouts.worker_ms;
  for (const uint64_t id : sessions_.Silent(now_ms_, silent_ms)) {
    EndSession(id, absl::StrCat("it was silent for ", silent_ms, " ms"), true);
  }
}

void CoordinatorCore::EndSession(uint64_t id, const std::string& why, bool died) {
  const std::optional<WorkerSession> session = sessions_.Close(id, why, !phases_.ended());
  if (!session.has_value()) return;
  if (died) ++state_.counters.worker_recoveries;
  evaluations_.EndSession(id);
  std::vector<LeaseState> leases = training_.EndSession(id);
  if (!died || leases.empty() || !phases_.training()) return;
  if (ps_.AllAre(PsStage::kReady)) NoteDeath(*session, std::move(leases), why);
}

void CoordinatorCore::EndAllSessions(const std::string& why) {
  while (!sessions_.empty()) EndSession(sessions_.all().begin()->first, why, false);
}

// Who waits for whom and why, in one line.
std::string CoordinatorCore::WaitReason() const {
  if (!writer_.problem().empty() && (evaluations_.unsaved() || !job_fixed_)) {
    return "job.state cannot be written: " + writer_.problem();
  }
  if (!ps_.AllAre(PsStage::kReady)) {
    const std::string other_dirs = ps_.OtherDirs();
    if (!other_dirs.empty()) return other_dirs;
    if (!ps_.AnyIs(PsStage::kAway)) return "the parameter servers load their partitions";
    return "training is parked: " + MissingTasks();
  }
  switch (phases_.now()) {
    case Phase::kEvaluating:
      return "the rest of the evaluation is with other workers";
    case Phase::kFinishing:
      return rounds_.problem().empty() ? "the final checkpoint is being written"
                                       : "the final checkpoint fails: " + rounds_.problem();
    case Phase::kTraining:
      return end_.planned() ? "the coordinator is ending the job"
                            : "the rest of the epoch's splits are with other workers";
    default:
      return "the ledgers are being read";
  }
}

// Who keeps whom, where all are there and training is under way; empty: nobody.
std::string CoordinatorCore::Stalls(int64_t now_ms) const {
  std::vector<std::string> stalls;
  for (size_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_.all()[i];
    const int64_t silent_ms = now_ms - ps.heard_ms;
    if (ps.stage == PsStage::kAway || silent_ms < kSilentMs) continue;
    stalls.push_back(absl::StrFormat(
        "ps:%d at %s has not answered for %.1f s: it hangs, or cannot be reached; it counts as "
        "away after timeouts.ps_ms = %d ms",
        i, ps.address, static_cast<double>(silent_ms) / 1000, job_.timeouts.ps_ms));
  }
  size_t more = 0;
  for (const auto& [id, session] : sessions_.all()) {
    if (session.waits_for.empty()) continue;
    if (stalls.size() >= kStallsMax) {
      ++more;
    } else {
      stalls.push_back(absl::StrCat(session.task, " waits for ", session.waits_for));
    }
  }
  if (more > 0) stalls.push_back(absl::StrCat(more, " more workers wait for a ps"));
  if (std::string slow = ps_.SlowReaders(); !slow.empty()) stalls.push_back(std::move(slow));
  return absl::StrJoin(stalls, "; ");
}

// Once each time, for the log.
void CoordinatorCore::SayStalls() {
  std::string stalls = phases_.training() ? Stalls(now_ms_) : "";
  std::string said = stalls;
  std::erase_if(said, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  if (said == stalls_said_) return;
  if (!stalls.empty() && stalls_said_.empty()) Warn("training waits: " + stalls);
  stalls_said_ = std::move(said);
}

}  // namespace paracord
