// Sends reports of a worker to its coordinator and takes the answers. Runs on the loop.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "worker/worker.h"

namespace paracord {
namespace {

constexpr int64_t kBeatMsMax = 1000;
constexpr int64_t kWorkMs = 5000;  // deadline of a report; the coordinator parks it for 1 s

}  // namespace

// Shows that this worker lives while a batch takes long.
void Worker::Beat() {
  environment_.loop.PostAfter(std::clamp<int64_t>(job_->timeouts.worker_ms / 4, 10, kBeatMsMax),
                              gate_.Enter([this, session = session_] {
                                if (session != session_ || trainer_ == nullptr) return;
                                if (coordinator_lost_ && Finished())
                                  return EndSession("the coordinator is gone");
                                if (!coordinator_lost_ && reports_.BeginBeat()) {
                                  WorkRequest request;
                                  request.set_session(session_);
                                  request.set_waits_for(WaitsFor());
                                  reports_.SetLate(trainer_->Late());
                                  reports_.SayLate(request);
                                  Call(std::move(request));
                                }
                                Beat();
                              }));
}

// Sends progress one call at a time; progress made meanwhile goes with the next call.
void Worker::SendWork() {
  if (trainer_ == nullptr || exiting_) return;
  if (coordinator_lost_) {
    if (Finished()) {
      environment_.loop.Post(gate_.Enter([this, session = session_] {
        if (session == session_ && trainer_ != nullptr && Finished()) {
          EndSession("the coordinator is gone");
        }
      }));
    }
    return;
  }
  reports_.SetLate(trainer_->Late());
  const bool ask = trainer_->WantsTask() && reports_.MayAsk() && !draining();
  const int64_t now_ms = environment_.loop.NowMs();
  if (!ask && !reports_.Due(now_ms, /*at_once=*/drained_)) return;
  if (!reports_.has_counters()) reports_.Add(trainer_->TakeCounters());
  WorkRequest request = reports_.Begin(ask, trainer_->Holds(), now_ms);
  request.set_session(session_);
  request.set_waits_for(WaitsFor());
  request.set_leaving(drained_);
  Call(std::move(request));
}

// Names the ps and lanes that keep this worker waiting, for the coordinator and, once a wait, for
// the log.
std::string Worker::WaitsFor() {
  std::string text = Sendable(trainer_->WaitsFor());
  if (!text.empty() && !std::exchange(waits_, true)) log_.Warn("waits for {}", text);
  if (text.empty() && std::exchange(waits_, false)) log_.Info("goes on");
  return text;
}

void Worker::Call(WorkRequest request) {
  const auto sent = std::make_shared<WorkRequest>(std::move(request));
  CallProto<WorkReply>(
      *coordinator_, method::kWork, *sent, kWorkMs,
      gate_.EnterOn(environment_.loop, [this, sent](const absl::StatusOr<WorkReply>& reply) {
        WorkAnswered(*sent, reply);
      }));
}

void Worker::WorkAnswered(const WorkRequest& sent, const absl::StatusOr<WorkReply>& reply) {
  if (!reply.ok() || reply->has_rejoin()) reports_.PutBackCounters(sent);
  if (sent.session() != session_ || trainer_ == nullptr || exiting_) return;
  reports_.End(sent);
  if (!reply.ok()) {
    if (sent.leaving()) return Exit(ExitCode::kDrained, signal_);
    if (Unreadable(reply.status())) return;
    reports_.PutBack(sent);
    // The coordinator takes this worker for dead by now, and the parked Hold may never return (a
    // network partition, a lost call).
    if (environment_.loop.NowMs() - seen_.seen_ms() > job_->timeouts.worker_ms) {
      return CoordinatorLost(Text(reply.status()));
    }
    environment_.loop.PostAfter(kJoinAgainMs, gate_.Enter([this] { SendWork(); }));
    return;
  }
  seen_.Seen(environment_.loop.NowMs());
  // A beat is empty, so an answer to a beat proves nothing.
  if (sent.leases_size() > 0 || sent.has_evaluation()) unreadable_ = 0;
  if (sent.leaving()) return Exit(ExitCode::kDrained, signal_);
  switch (reply->task_case()) {
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
  std::vector<Lease> leases(reply->lanes().begin(), reply->lanes().end());
  if (reply->has_lease()) leases.insert(leases.begin(), reply->lease());
  if (!leases.empty()) trainer_->Take(leases);
  SendWork();
}

}  // namespace paracord
