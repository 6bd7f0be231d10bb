#include "worker/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "config/norm_clip.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "storage/checkpoint.h"
#include "storage/claim.h"
#include "worker/transfer_options.h"

namespace paracord {
namespace {

constexpr int64_t kJoinMs = 5000;  // deadline of a join
constexpr int64_t kHoldMs = int64_t{24} * 3600 * 1000;
constexpr int64_t kLookMs = 3000;   // without a coordinator, until the worker looks into DIR
constexpr int64_t kLeaveMs = 1000;  // to say goodbye
constexpr int64_t kEndedMs = 2000;  // after the job's end, between two looks for a coordinator
constexpr size_t kShownBytesMax = 100;

// Returns the session with the holders that exchanges go to: all holders in synchronous training,
// otherwise the first holder alone, because asynchronous updates do not commute.
Session WithHolders(Session session, bool sync) {
  for (int i = 0; !sync && i < session.partitions_size(); ++i) {
    session.mutable_partitions(i)->clear_copies();
  }
  return session;
}

}  // namespace

Worker::Worker(WorkerOptions options, OpenWorkloadFn open, Environment environment,
               std::function<void(int exit_code, std::string reason)> exit)
    : options_(std::move(options)),
      open_(std::move(open)),
      environment_(environment),
      exit_(std::move(exit)),
      log_(options_.task),
      boot_id_(environment_.random.NextId()),
      coordinator_(environment_.network.Dial(options_.coordinator)) {}

void Worker::Start() {
  seen_.Start(environment_.loop.NowMs());
  Join();
}

void Worker::End(ExitCode code, const std::string& reason) {
  if (code != ExitCode::kDone || !options_.stay || draining()) return Exit(code, reason);
  if (!std::exchange(ended_, true)) {
    log_.Info("the job is done ({}): holds nothing any more, and stays until SIGTERM", reason);
  }
  trainer_.reset();
  session_ = 0;
  run_id_.clear();
  ps_links_.clear();
  workload_.reset();
  job_.reset();
}

void Worker::Told(const Leave& leave) {
  End(static_cast<ExitCode>(leave.exit_code()), leave.reason());
  if (!exiting_) JoinLater(kEndedMs);
}

void Worker::Exit(ExitCode code, const std::string& reason) {
  if (std::exchange(exiting_, true)) return;
  trainer_.reset();
  log_.Info("leaves with exit code {}: {}", static_cast<int>(code), reason, "reason"_a = reason);
  exit_(static_cast<int>(code), reason);
}

void Worker::SayOnce(const std::string& what) {
  if (what == last_said_) return;
  last_said_ = what;
  log_.Info("{}", what);
}

// A message that cannot be parsed will not be parsed the next time: the worker or the coordinator
// has another version, or a bug. A first failure may come from a coordinator that is being
// replaced. True if the worker gives up.
bool Worker::Unreadable(const absl::Status& status) {
  constexpr uint32_t kInARow = 5;
  if (!absl::IsInvalidArgument(status) || ++unreadable_ < kInARow) return false;
  Exit(ExitCode::kVersion, absl::StrCat("this worker and the coordinator at ", options_.coordinator,
                                        " cannot read each other's messages: ", Text(status)));
  return true;
}

// ---- joining

void Worker::Join() {
  if (exiting_ || opening_) return;
  if (draining()) return Exit(ended_ ? ExitCode::kDone : ExitCode::kDrained, signal_);
  const int64_t orphan_ms = job_.has_value() ? job_->timeouts.orphan_ms : options_.orphan_ms;
  if (!ended_ && environment_.loop.NowMs() - seen_.seen_ms() > orphan_ms) {
    return Exit(ExitCode::kPeerLost, absl::StrCat("no coordinator at ", options_.coordinator,
                                                  " for ", orphan_ms, " ms"));
  }
  LookInDir();
  environment_.loop.PostAfter(kLookMs, gate_.Enter([this] { LookInDir(); }));
  JoinRequest request;
  request.set_task(options_.task);
  request.set_boot_id(boot_id_);
  request.set_protocol(kProtocol);
  request.set_device(options_.device);
  request.set_run_id(run_id_);
  if (workload_ != nullptr) {
    request.set_numerics(workload_->numerics);
    if (workload_->devices != nullptr) {
      request.set_devices(static_cast<uint32_t>(workload_->devices->size()));
    }
    *request.mutable_facts() = workload_->facts;
    if (!workload_->device.empty()) request.set_device(workload_->device);
  }
  request.set_error(Sendable(open_error_));
  CallProto<JoinReply>(
      *coordinator_, method::kJoin, request, kJoinMs,
      gate_.EnterOn(environment_.loop,
                    [this](const absl::StatusOr<JoinReply>& reply) { JoinAnswered(reply); }));
}

// A finished job has no coordinator. If processes start in any order, a coordinator with more to do
// may still come: a worker that has not seen a coordinator yet waits for one.
void Worker::LookInDir() {
  if (exiting_ || ended_ || options_.dir.empty()) return;
  if (!seen_.LookNow(kLookMs, environment_.loop.NowMs())) return;
  const auto end = std::make_shared<std::optional<JobEnd>>();
  environment_.executor.Run(
      [end, &files = environment_.files, dir = options_.dir] { *end = FindJobEnd(files, dir); },
      gate_.Enter([this, end, since_ms = seen_.seen_ms()] {
        if (!end->has_value() || !seen_.looked()) return;
        int64_t left_ms = since_ms + (*end)->start_ms - environment_.loop.NowMs();
        // A staying worker takes part again when a coordinator comes.
        if (seen_.known() || options_.stay) left_ms = 0;
        if (left_ms > 0) {
          log_.Info("the job is done: waits {} s for a coordinator that gives it more to do",
                    left_ms / 1000);
        }
        environment_.loop.PostAfter(std::max<int64_t>(0, left_ms), gate_.Enter([this, since_ms] {
          if (since_ms == seen_.seen_ms()) {
            End(ExitCode::kDone, "the newest checkpoint is complete");
          }
        }));
      }));
}

// The worker reads nothing in DIR that training needs, so with another DIR the worker still takes
// part.
void Worker::CheckSameDir(const Session& session) {
  if (options_.dir.empty() || session.claim().empty() || other_dir_said_) return;
  const auto same = std::make_shared<bool>(true);
  environment_.executor.Run(
      [same, &files = environment_.files, dir = options_.dir, generation = session.generation(),
       claim = session.claim()] {
        *same = SeesClaim(files, dir, generation, claim).value_or(true);
      },
      gate_.Enter([this, same, theirs = session.dir()] {
        if (*same || std::exchange(other_dir_said_, true)) return;
        log_.Warn(
            "--dir is not the same directory as the coordinator's: {}{}{} here, {} there. This "
            "worker takes part, but where the coordinator is away it cannot see that the job is "
            "done",
            options_.dir, options_.host.empty() ? "" : " on host ", options_.host, theirs);
      }));
}

void Worker::JoinLater(int64_t delay_ms) {
  environment_.loop.PostAfter(delay_ms, gate_.Enter([this] { Join(); }));
}

void Worker::JoinAnswered(const absl::StatusOr<JoinReply>& reply) {
  if (exiting_) return;
  const auto wait = [this](const std::string& what) {
    SayOnce("waits" + what);
    JoinLater(ended_ ? kEndedMs : join_again_ms_);
    join_again_ms_ = std::min(2 * join_again_ms_, kJoinAgainMs);
  };
  if (!reply.ok()) {
    if (Unreadable(reply.status())) return;
    return wait(
        absl::StrCat(" for the coordinator at ", options_.coordinator, ": ", Text(reply.status())));
  }
  if (reply->what_case() == JoinReply::kOtherRun) return OtherRun(reply->other_run());
  seen_.Seen(environment_.loop.NowMs());
  seen_.LookAgain();
  unreadable_ = 0;
  switch (reply->what_case()) {
    case JoinReply::kJobJson:
      return Open(reply->job_json());
    case JoinReply::kSession:
      return StartSession(reply->session());
    case JoinReply::kLeave:
      return Told(reply->leave());
    default:
      wait(": " + reply->wait());
  }
}

// A coordinator of another run has answered. The coordinator of this worker's run may come back,
// over a new connection, since the name may have led elsewhere for a while.
void Worker::OtherRun(const std::string& run_id) {
  constexpr int64_t kAgainMs = 1000;
  SayOnce(absl::StrCat("waits: the coordinator at ", options_.coordinator, " leads ",
                       run_id.empty() ? "no run yet" : "run " + OneLine(run_id, kShownBytesMax),
                       ", not ", run_id_,
                       ": it is another job's, or this job was begun anew, which needs this worker "
                       "to be started again"));
  coordinator_ = environment_.network.Dial(options_.coordinator);
  JoinLater(kAgainMs);
}

void Worker::Open(const std::string& job_json) {
  absl::StatusOr<Job> job = ParseJob(job_json);
  if (!job.ok()) {
    open_error_ = Text(job.status());
    return Join();
  }
  job_ = *std::move(job);
  opening_ = true;
  // Frees the memory first, since there may not be room for both.
  if (std::exchange(workload_, nullptr) != nullptr) {
    log_.Info("the job has changed: opening it again");
  }
  const auto opened = std::make_shared<absl::StatusOr<Workload>>(absl::UnknownError(""));
  environment_.executor.Run(
      [opened, open = open_, opened_job = *job_] { *opened = open(opened_job); },
      gate_.Enter([this, opened, fingerprint = Fingerprint64(job_json)] {
        opening_ = false;
        if (opened->ok()) {
          workload_ = std::make_shared<Workload>(*std::move(*opened));
          workload_->facts.set_job(fingerprint);
        } else {
          open_error_ = Text(opened->status());
          log_.Error("cannot take part: {}", open_error_);
        }
        Join();
      }));
}

// ---- a session

std::vector<Link*> Worker::LinksTo(const Session& session) {
  std::vector<Link*> links;
  for (const PsInfo& ps : session.ps()) {
    auto& [boot_id, link] = ps_links_[ps.address()];
    if (link == nullptr || boot_id != ps.boot_id() || link->lost_shared_memory()) {
      boot_id = ps.boot_id();
      link = environment_.network.DialBoot(ps.address(), boot_id);
    }
    links.push_back(link.get());
  }
  return links;
}

void Worker::StartSession(const Session& session) {
  last_said_.clear();
  ended_ = false;
  join_again_ms_ = kJoinSoonMs;
  session_ = session.id();
  run_id_ = session.run_id();
  session_began_ms_ = environment_.loop.NowMs();
  coordinator_lost_ = false;
  reports_.BeginSession();
  std::vector<Link*> links = LinksTo(session);
  TrainerCallbacks callbacks;
  callbacks.report = [this](const LeaseReport& report) {
    if (report.problem() == PROBLEM_UNREACHABLE) SayOnce("gives a lease back: " + report.message());
    reports_.Add(report);
    SendWork();
  };
  callbacks.evaluated = [this](const EvaluationReport& report) {
    reports_.Add(report);
    SendWork();
  };
  // Posted, because the session's end destroys the trainer that calls `stale`.
  const auto stale = [this, id = session_](std::string why) {
    environment_.loop.Post(gate_.Enter([this, id, why = std::move(why)] {
      if (id != session_ || trainer_ == nullptr) return;
      EndSession(why);
      // Another process may answer at the address; a new connection finds the process that has the
      // name now.
      ps_links_.clear();
    }));
  };
  callbacks.wants_task = [this] { SendWork(); };
  PsSessionOptions options{.task = options_.task,
                           .exchange_ms = job_->timeouts.ps_ms,
                           .transfer = TransferOf(*job_),
                           .overlap = job_->overlap,
                           .staged_push_bytes = options_.staged_push_bytes};
  const bool sync = job_->guarantees.sync();
  const TrainerOptions how{.overlap = job_->overlap,
                           .keeps_residuals = options.transfer.keeps_residuals(),
                           .exact_values = options.transfer.wire == ENCODING_FLOAT32,
                           .staleness = job_->guarantees.staleness.value_or(0),
                           .sync = sync,
                           .backup = job_->guarantees.backup_factor,
                           .clips_rounds = sync && ReadNormClip(job_->optimizer).on(),
                           .adds_lanes = sync && (options.transfer.wire == ENCODING_FLOAT32 ||
                                                  job_->guarantees.reduce_fast),
                           .figures = figures_};
  ++figures_->sessions;
  log_.Info("joined: session {}, generation {}, {} ps", session.id(), session.generation(),
            links.size());
  environment_.executor.Run(
      [workload = workload_, plan = session.plan()] { workload->feed->Start(plan); }, [] {});
  auto parameters = std::make_unique<PsSession>(std::move(options), WithHolders(session, sync),
                                                workload_, std::move(links), environment_, stale);
  trainer_ = std::make_unique<Trainer>(how, session.plan(), workload_, std::move(parameters),
                                       environment_, std::move(callbacks));
  CheckSameDir(session);
  if (draining()) return Drain(signal_);
  Hold();
  Beat();
  SendWork();
}

void Worker::EndSession(const std::string& why) {
  if (trainer_ == nullptr) return;
  SayOnce("joins again: " + why);
  reports_.Add(trainer_->TakeCounters());
  trainer_.reset();
  session_ = 0;
  // Delays the next join, so that a peer that ends every session at once is not asked without
  // pause.
  const bool short_lived = environment_.loop.NowMs() - session_began_ms_ < kJoinAgainMs;
  short_lived ? JoinLater(kJoinAgainMs) : Join();
}

void Worker::Hold() {
  WorkerHoldRequest request;
  request.set_session(session_);
  CallProto<WorkerHoldReply>(
      *coordinator_, method::kWorkerHold, request, kHoldMs,
      gate_.EnterOn(environment_.loop,
                    [this, session = session_](const absl::StatusOr<WorkerHoldReply>& reply) {
                      HoldAnswered(session, reply);
                    }));
}

void Worker::HoldAnswered(uint64_t session, const absl::StatusOr<WorkerHoldReply>& reply) {
  if (session != session_ || trainer_ == nullptr || exiting_) return;
  if (!reply.ok()) {
    if (absl::IsDeadlineExceeded(reply.status())) return Hold();
    return CoordinatorLost(Text(reply.status()));
  }
  seen_.Seen(environment_.loop.NowMs());
  if (reply->has_leave()) {
    return Told(reply->leave());
  }
  EndSession(reply->rejoin());
}

// The ps take pushes of this session until a new coordinator raises the generation, so the worker
// finishes the leases at hand first.
void Worker::CoordinatorLost(const std::string& why) {
  coordinator_lost_ = true;
  if (Finished()) return EndSession(why);
  SayOnce("finishes its lease without the coordinator: " + why);
}

// Whether the session has nothing left to do without a coordinator. Lanes that a pull waits for may
// belong to nobody.
bool Worker::Finished() const { return trainer_->Idle() || trainer_->Waits(); }

HealthState Worker::Health() const {
  if (trainer_ != nullptr) return {true, absl::StrCat("takes part, in session ", session_)};
  if (ended_) return {true, "has no job: the last one is done"};
  if (opening_) return {false, "is opening the data and the model"};
  return {false, last_said_.empty() ? "joins" : last_said_};
}

void Worker::AddMetrics(MetricSet& metrics) const {
  figures_->AddTo(metrics);
  metrics.Gauge("paracord_worker_in_session", "1 while it takes part in a job.",
                trainer_ != nullptr ? 1 : 0);
  metrics.Gauge("paracord_worker_draining", "1 while it leaves.", draining() ? 1 : 0);
}

void Worker::Drain(const std::string& signal) {
  signal_ = signal;
  if (trainer_ == nullptr) return Exit(ended_ ? ExitCode::kDone : ExitCode::kDrained, signal_);
  log_.Info("{}: finishing the batch, then leaving", signal_);
  trainer_->Drain([this] {
    drained_ = true;
    SendWork();
    environment_.loop.PostAfter(kLeaveMs,
                                gate_.Enter([this] { Exit(ExitCode::kDrained, signal_); }));
  });
}

}  // namespace paracord
