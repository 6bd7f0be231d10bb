// Who joins: what a worker is told before it has a session, and who is sent away.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "config/cluster.h"
#include "coordinator/core/core.h"
#include "proto/protocol.h"
#include "storage/claim.h"

namespace paracord {
namespace {

constexpr size_t kSessionsMax = 100000;
constexpr size_t kDeviceBytesMax = 64;
constexpr uint64_t kRefusalsLogged = 10;  // in a second
constexpr size_t kFactsMax = 16;          // of workers that disagree
constexpr int64_t kOpeningTimes = 5;  // of agree_ms, where a worker has come and opens its files

JoinReply WaitReply(std::string reason) {
  JoinReply reply;
  reply.set_wait(std::move(reason));
  return reply;
}

// Both are kept, and the task is logged and shown.
absl::Status CheckIdentity(const JoinRequest& request) {
  constexpr size_t kBytesMax = 64;
  for (const std::string* text : {&request.task(), &request.boot_id()}) {
    if (text->size() > kBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          text == &request.task() ? "task: " : "boot_id: ", OneLine(*text, kBytesMax)));
    }
  }
  ASSIGN_OR_RETURN(const Task task, ParseTask(request.task()));
  const bool works = task.role == Role::kWorker || task.role == Role::kEvaluator;
  if (works && task.ToString() == request.task()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("task: ", OneLine(request.task(), kBytesMax),
                                                 " is not what a worker is called"));
}

}  // namespace

// Whoever is refused may ask again as often as it likes.
void CoordinatorCore::RefuseJoin(CallId call, ExitCode code, const std::string& reason,
                                 std::string logged) {
  Emit(AnswerJoin{call, LeaveReply<JoinReply>({static_cast<int>(code), Sendable(reason)})});
  last_refusal_ = logged;
  if (now_ms_ - refusals_since_ms_ >= 1000) {
    if (refusals_ > kRefusalsLogged) {
      Warn(absl::StrCat(refusals_ - kRefusalsLogged, " more joins were refused"));
    }
    refusals_since_ms_ = now_ms_;
    refusals_ = 0;
  }
  if (++refusals_ <= kRefusalsLogged) Warn(std::move(logged));
}

void CoordinatorCore::Handle(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  // It was in the run of another job, whose coordinator's address has led here. Ours needs none of
  // what it has, and its task may be somebody's here.
  if (!request.run_id().empty() && request.run_id() != state_.run_id) {
    JoinReply reply;
    reply.set_other_run(state_.run_id);
    return Emit(AnswerJoin{event.call, std::move(reply)});
  }
  if (phase_ == Phase::kEnded) {
    untold_.erase(request.task());
    if (leaves_alone_) {
      return Emit(AnswerJoin{event.call, WaitReply("the coordinator is leaving")});
    }
    return Emit(AnswerJoin{event.call, LeaveReply<JoinReply>({exit_->code, "the job has ended"})});
  }
  if (request.protocol() != kProtocol) {
    return Emit(AnswerJoin{
        event.call,
        LeaveReply<JoinReply>({static_cast<int>(ExitCode::kVersion),
                               absl::StrCat("this coordinator speaks protocol ", kProtocol,
                                            ", the worker ", request.protocol())})});
  }
  if (const absl::Status known = CheckIdentity(request); !known.ok()) {
    return RefuseJoin(event.call, ExitCode::kConfiguration, std::string(known.message()),
                      absl::StrCat("a join is refused: ", known.message()));
  }
  if (!request.error().empty()) {
    return CannotTakePart(event);
  }
  if (displaced_.contains(request.boot_id())) {
    return RefuseJoin(
        event.call, ExitCode::kInUse,
        absl::StrCat("another process has taken the place of ", request.task()),
        absl::StrCat("an earlier life of ", request.task(), " came back and is sent away"));
  }
  if (untold_.size() < kSessionsMax) untold_.insert(request.task());
  if (state_.run_id.empty() && came_.size() < kSessionsMax) came_.insert(request.task());
  // It may have the job of an earlier coordinator.
  if (!request.has_facts() || request.facts().job() != job_fingerprint_) {
    JoinReply reply;
    reply.set_job_json(state_.job_json);
    return Emit(AnswerJoin{event.call, std::move(reply)});
  }
  if (!job_fixed_) {
    if (state_.run_id.empty()) {
      if (const auto why = FixJobIfAgreed(request); why.has_value()) {
        return Emit(AnswerJoin{event.call, WaitReply(*why)});
      }
    }
    if (phase_ == Phase::kEnded) {
      return Emit(
          AnswerJoin{event.call, LeaveReply<JoinReply>({exit_->code, "the job has ended"})});
    }
    return Emit(AnswerJoin{event.call, WaitReply("the job is being created")});
  }
  if (const std::optional<std::string> why = FactsDiffer(request.facts()); why.has_value()) {
    const std::string reason = absl::StrCat(request.task(), " is refused: ", *why);
    Remember(request.task(), *why);
    return RefuseJoin(event.call, ExitCode::kConfiguration, reason, reason);
  }
  if (state_.metric_names.empty()) {
    state_.metric_names.assign(request.facts().metric_names().begin(),
                               request.facts().metric_names().end());
  }
  if (!ps_.AllAre(PsStage::kReady)) return Emit(AnswerJoin{event.call, WaitReply(WaitReason())});
  OpenSession(event.call, request);
}

// One worker may lack what the others have. That of all that the cluster names none can take part
// means that the job itself is wrong.
void CoordinatorCore::CannotTakePart(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  const std::string error = OneLine(request.error(), kSendableBytesMax);
  const std::string why = absl::StrCat(request.task(), " cannot take part: ", error);
  RefuseJoin(event.call, ExitCode::kConfiguration, request.error(), why);
  Remember(request.task(), "it cannot take part: " + error);
  if (!state_.run_id.empty()) return;
  facts_.erase(request.task());
  if (unable_.size() < kSessionsMax) unable_.insert(request.task());
  const bool all = std::ranges::all_of(options_.workers,
                                       [&](const auto& task) { return unable_.contains(task); });
  if (all) EndJob(ExitCode::kConfiguration, "failed", why);
}

void CoordinatorCore::Remember(const std::string& task, const std::string& refusal) {
  constexpr size_t kShown = 100;
  if (refused_.size() < kShown || refused_.contains(task)) refused_[task] = refusal;
}

// One worker's files may be others than the rest's, so two have to find the same; or, after a
// while, most of those that have come. Says what is waited for if that is not so yet.
std::optional<std::string> CoordinatorCore::FixJobIfAgreed(const JoinRequest& request) {
  if (facts_.empty()) first_facts_ms_ = now_ms_;
  facts_[request.task()] = request.facts();
  unable_.erase(request.task());
  std::map<std::string, size_t> found;  // how many, by what
  for (const auto& [task, facts] : facts_) ++found[facts.SerializeAsString()];
  const auto most = [&] {
    return std::ranges::max_element(
        facts_, {}, [&](const auto& item) { return found[item.second.SerializeAsString()]; });
  };
  const JobFacts& chosen = most()->second;  // the first task's among equals
  const size_t agree = found[chosen.SerializeAsString()];
  const int64_t waited_ms = now_ms_ - first_facts_ms_;
  // A worker opens its files, or a third one has to say which of two is right.
  const bool unsure = facts_.size() + unable_.size() < came_.size() || found.size() > 1;
  const bool enough = agree >= 2 || facts_.size() >= kFactsMax || options_.workers.size() < 2 ||
                      waited_ms >= options_.agree_ms * (unsure ? kOpeningTimes : 1);
  if (!enough) {
    return absl::StrCat("what ", facts_.begin()->first,
                        " finds in the files waits for another worker that finds the same");
  }
  if (found.size() > 1) {
    Warn(absl::StrCat("the workers do not find the same in the files: the job goes by what ", agree,
                      " of ", facts_.size(), " find"));
  }
  const JobFacts fixed = chosen;
  facts_.clear();
  came_.clear();
  FixJob(fixed);
  return std::nullopt;
}

void CoordinatorCore::OpenSession(CallId call, const JoinRequest& request) {
  // A task has one session. Its earlier life is over, which is no batch's fault; should it live, it
  // must not take the place back, or the two would change places for ever.
  const auto earlier = session_of_.find(request.task());
  if (boot_of_.size() >= kSessionsMax) {
    boot_of_.clear();
    reports_counted_.clear();
  }
  if (displaced_.size() >= kSessionsMax) displaced_.clear();
  std::string& boot_id = boot_of_[request.task()];
  if (!boot_id.empty() && boot_id != request.boot_id()) {
    displaced_.insert(boot_id);
    if (earlier != session_of_.end()) ++state_.counters.worker_recoveries;
  }
  if (boot_id != request.boot_id()) reports_counted_.erase(request.task());
  boot_id = request.boot_id();
  if (earlier != session_of_.end()) {
    EndSession(earlier->second, "the same task joined again", false);
  }
  if (sessions_.size() >= kSessionsMax) {
    return Emit(AnswerJoin{call, WaitReply("there are too many workers")});
  }
  WorkerSession session;
  session.id = ++last_id_;
  session.task = request.task();
  session.device = OneLine(request.device(), kDeviceBytesMax);
  session.joined_ms = session.last_seen_ms = now_ms_;
  JoinReply reply;
  Session& opened = *reply.mutable_session();
  opened.set_claim(ClaimText(generation_.claimed(), options_.boot_id));
  opened.set_dir(options_.ShownDir());
  opened.set_id(session.id);
  opened.set_run_id(state_.run_id);
  opened.set_generation(generation_.claimed());
  for (const Ps& ps : ps_.all()) {
    PsInfo& info = *opened.add_ps();
    info.set_address(ps.address);
    info.set_boot_id(ps.description.boot_id());
  }
  for (const PartitionSpec& partition : ps_.layout()) *opened.add_partitions() = partition;
  *opened.mutable_plan() = state_.plan;
  untold_.erase(session.task);
  last_refusal_.clear();
  refused_.erase(session.task);
  Info(absl::StrCat(session.task, " joined (", session.device, ")"));
  session_of_[session.task] = session.id;
  sessions_.emplace(session.id, std::move(session));
  Emit(AnswerJoin{call, std::move(reply)});
}

}  // namespace paracord
