// What a worker reports to its coordinator, and what the coordinator answers. Runs on the loop.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "worker/worker.h"

namespace paracord {
namespace {

constexpr int64_t kReportMs = 50;
constexpr int64_t kBeatMsMax = 1000;
constexpr int64_t kWorkMs = 5000;  // deadline of a report; the coordinator parks it for 1 s

}  // namespace

// Says that this worker lives even while a batch takes long.
void Worker::Beat() {
  environment_.loop.PostAfter(std::clamp<int64_t>(job_->timeouts.worker_ms / 4, 10, kBeatMsMax),
                              Guarded([this, session = session_] {
                                if (session != session_ || trainer_ == nullptr) return;
                                if (coordinator_lost_ && trainer_->Idle())
                                  return EndSession("the coordinator is gone");
                                if (!reporting_ && !coordinator_lost_) {
                                  reporting_ = true;
                                  WorkRequest request;
                                  request.set_session(session_);
                                  request.set_waits_for(WaitsFor());
                                  Call(std::move(request));
                                }
                                Beat();
                              }));
}

// Progress is sent as it comes, one call at a time; what comes meanwhile goes with the next.
void Worker::SendWork() {
  if (trainer_ == nullptr || exiting_) return;
  if (coordinator_lost_) {
    if (trainer_->Idle()) {
      environment_.loop.Post(Guarded([this, session = session_] {
        if (session == session_ && trainer_ != nullptr && trainer_->Idle()) {
          EndSession("the coordinator is gone");
        }
      }));
    }
    return;
  }
  const bool ask = trainer_->WantsTask() && !asking_ && !draining_;
  // Progress within a lease is told now and then; the next batch tells it if this one does not.
  const bool ended = std::any_of(reports_.begin(), reports_.end(),
                                 [](const auto& report) { return report.second.ended(); });
  const int64_t now = environment_.loop.NowMs();
  const bool progress = !reports_.empty() && now - reported_ms_ >= kReportMs;
  const bool report = !reporting_ && (ended || progress || evaluation_.has_value() || drained_);
  if (!ask && !report) return;
  reported_ms_ = now;
  WorkRequest request;
  request.set_session(session_);
  for (auto& [lease, report_of_lease] : reports_) {
    *request.add_leases() = std::move(report_of_lease);
  }
  reports_.clear();
  if (evaluation_.has_value()) *request.mutable_evaluation() = *std::move(evaluation_);
  evaluation_.reset();
  AddCounters(request);
  request.set_waits_for(WaitsFor());
  request.set_want_task(ask);
  if (ask) {
    for (const uint64_t id : trainer_->Holds()) request.add_holds(id);
    // Which may come before the report does: it would be free again, and computed twice.
    for (const uint64_t id : telling_) request.add_holds(id);
  } else {
    for (const LeaseReport& each : request.leases()) {
      if (each.ended()) telling_.push_back(each.lease());
    }
    if (request.has_evaluation()) telling_.push_back(request.evaluation().lease());
  }
  request.set_leaving(drained_);
  (ask ? asking_ : reporting_) = true;
  Call(std::move(request));
}

// Who keeps this worker, for the coordinator and, once each time, for the log.
std::string Worker::WaitsFor() {
  std::string text = Sendable(trainer_->WaitsFor());
  if (!text.empty() && !std::exchange(waits_, true)) log_.Warn("waits for {}", text);
  if (text.empty() && std::exchange(waits_, false)) log_.Info("goes on");
  return text;
}

// What was said before and perhaps not heard is said again first, under its number.
void Worker::AddCounters(WorkRequest& request) {
  if (unreported_.empty()) unreported_[++last_report_] = trainer_->TakeCounters();
  const auto [number, counters] = *unreported_.begin();
  unreported_.erase(unreported_.begin());
  request.set_report(number);
  request.set_computed(counters.computed);
  request.set_duplicates(counters.duplicates);
  request.set_samples(counters.samples);
  request.set_loss_sum(counters.loss_sum);
  request.set_staleness_sum(counters.staleness_sum);
}

void Worker::PutBackCounters(const WorkRequest& sent) {
  if (sent.report() == 0) return;
  unreported_[sent.report()] = {.computed = sent.computed(),
                                .duplicates = sent.duplicates(),
                                .samples = sent.samples(),
                                .loss_sum = sent.loss_sum(),
                                .staleness_sum = sent.staleness_sum()};
}

void Worker::Call(WorkRequest request) {
  const auto sent = std::make_shared<WorkRequest>(std::move(request));
  CallProto<WorkReply>(
      *coordinator_, method::kWork, *sent, kWorkMs,
      [this, alive = alive_, &loop = environment_.loop, sent](absl::StatusOr<WorkReply> reply) {
        loop.Post([this, alive, sent, reply = std::move(reply)] {
          if (*alive) WorkAnswered(*sent, reply);
        });
      });
}

void Worker::WorkAnswered(const WorkRequest& sent, const absl::StatusOr<WorkReply>& reply) {
  if (!reply.ok() || reply->has_rejoin()) PutBackCounters(sent);
  if (sent.session() != session_ || trainer_ == nullptr || exiting_) return;
  (sent.want_task() ? asking_ : reporting_) = false;
  if (!sent.want_task()) telling_.clear();
  if (!reply.ok()) {
    if (sent.leaving()) return Exit(ExitCode::kDrained, signal_);
    if (Unreadable(reply.status())) return;
    PutBack(sent);
    // It takes us for dead by now, and the parked Hold may never tell (a cut, a lost call).
    if (environment_.loop.NowMs() - coordinator_seen_ms_ > job_->timeouts.worker_ms) {
      return CoordinatorLost(Text(reply.status()));
    }
    environment_.loop.PostAfter(kJoinAgainMs, Guarded([this] { SendWork(); }));
    return;
  }
  coordinator_seen_ms_ = environment_.loop.NowMs();
  // A beat, which says nothing, shows nothing.
  if (sent.leases_size() > 0 || sent.has_evaluation()) unreadable_ = 0;
  if (sent.leaving()) return Exit(ExitCode::kDrained, signal_);
  switch (reply->task_case()) {
    case WorkReply::kLease:
      trainer_->Take(reply->lease());
      break;
    case WorkReply::kEvaluation:
      trainer_->Take(reply->evaluation());
      break;
    case WorkReply::kRejoin:
      return EndSession(reply->rejoin());
    case WorkReply::kLeave:
      return Told(reply->leave());
    case WorkReply::kWait:
      if (trainer_->Idle()) SayOnce("waits: " + reply->wait());
      break;
    default:
      break;
  }
  SendWork();
}

// A report that may be lost is sent again, unless there is a newer one.
void Worker::PutBack(const WorkRequest& sent) {
  for (const LeaseReport& report : sent.leases()) reports_.try_emplace(report.lease(), report);
  if (sent.has_evaluation() && !evaluation_.has_value()) evaluation_ = sent.evaluation();
}

}  // namespace paracord
