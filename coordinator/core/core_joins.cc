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

constexpr size_t kDeviceBytesMax = 64;

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

void CoordinatorCore::RefuseJoin(CallId call, ExitCode code, const std::string& reason,
                                 std::string logged) {
  Emit(AnswerJoin{call, LeaveReply<JoinReply>({static_cast<int>(code), Sendable(reason)})});
  refusals_.Log(std::move(logged), now_ms_);
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
  if (phases_.ended()) {
    sessions_.Told(request.task());
    if (end_.alone()) {
      return Emit(AnswerJoin{event.call, WaitReply("the coordinator is leaving")});
    }
    return Emit(
        AnswerJoin{event.call, LeaveReply<JoinReply>({end_.exit().code, "the job has ended"})});
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
  if (!request.error().empty()) return CannotTakePart(event);
  if (sessions_.Displaced(request.boot_id())) {
    return RefuseJoin(
        event.call, ExitCode::kInUse,
        absl::StrCat("another process has taken the place of ", request.task()),
        absl::StrCat("an earlier life of ", request.task(), " came back and is sent away"));
  }
  sessions_.Asked(request.task());
  if (state_.run_id.empty()) agreement_.Came(request.task());
  // It may have the job of an earlier coordinator.
  if (!request.has_facts() || request.facts().job() != job_fingerprint_) {
    JoinReply reply;
    reply.set_job_json(state_.job_json);
    return Emit(AnswerJoin{event.call, std::move(reply)});
  }
  if (job_fixed_) return TakeWithFacts(event);
  if (state_.run_id.empty()) {
    if (const auto why = FixJobIfAgreed(request); why.has_value()) {
      return Emit(AnswerJoin{event.call, WaitReply(*why)});
    }
  }
  if (phases_.ended()) {
    return Emit(
        AnswerJoin{event.call, LeaveReply<JoinReply>({end_.exit().code, "the job has ended"})});
  }
  Emit(AnswerJoin{event.call, WaitReply("the job is being created")});
}

// Opens a session for a worker whose facts are the job's.
void CoordinatorCore::TakeWithFacts(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  if (const std::optional<std::string> why = FactsDiffer(request.facts()); why.has_value()) {
    const std::string reason = absl::StrCat(request.task(), " is refused: ", *why);
    refusals_.Remember(request.task(), *why);
    return RefuseJoin(event.call, ExitCode::kConfiguration, reason, reason);
  }
  if (state_.metric_names.empty()) {
    state_.metric_names.assign(request.facts().metric_names().begin(),
                               request.facts().metric_names().end());
  }
  if (!ps_.AllAre(PsStage::kReady)) return Emit(AnswerJoin{event.call, WaitReply(WaitReason())});
  OpenSession(event.call, request);
}

void CoordinatorCore::CannotTakePart(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  const std::string error = OneLine(request.error(), kSendableBytesMax);
  const std::string why = absl::StrCat(request.task(), " cannot take part: ", error);
  RefuseJoin(event.call, ExitCode::kConfiguration, request.error(), why);
  refusals_.Remember(request.task(), "it cannot take part: " + error);
  if (!state_.run_id.empty()) return;
  const bool all = agreement_.CannotTakePart(request.task());
  if (all) EndJob(ExitCode::kConfiguration, "failed", why);
}

// Returns what is waited for if the job is not fixed yet.
std::optional<std::string> CoordinatorCore::FixJobIfAgreed(const JoinRequest& request) {
  Agreement::Outcome outcome = agreement_.Add(request.task(), request.facts(), now_ms_);
  if (!outcome.facts.has_value()) return outcome.waits;
  if (!outcome.differs.empty()) Warn(std::move(outcome.differs));
  FixJob(*outcome.facts);
  return std::nullopt;
}

void CoordinatorCore::OpenSession(CallId call, const JoinRequest& request) {
  // The earlier life of the task is over, which is no batch's fault.
  const std::optional<uint64_t> earlier = sessions_.Of(request.task());
  const bool other_life = sessions_.BeginLife(request.task(), request.boot_id());
  if (earlier.has_value()) {
    if (other_life) ++state_.counters.worker_recoveries;
    EndSession(*earlier, "the same task joined again", false);
  }
  const WorkerSession* const session =
      sessions_.Open(request.task(), OneLine(request.device(), kDeviceBytesMax), now_ms_);
  if (session == nullptr) return Emit(AnswerJoin{call, WaitReply("there are too many workers")});
  JoinReply reply;
  Session& opened = *reply.mutable_session();
  opened.set_claim(ClaimText(generation_.claimed(), options_.boot_id));
  opened.set_dir(options_.ShownDir());
  opened.set_id(session->id);
  opened.set_run_id(state_.run_id);
  opened.set_generation(generation_.claimed());
  for (const Ps& ps : ps_.all()) {
    PsInfo& info = *opened.add_ps();
    info.set_address(ps.address);
    info.set_boot_id(ps.description.boot_id());
  }
  for (const PartitionSpec& partition : ps_.layout()) *opened.add_partitions() = partition;
  *opened.mutable_plan() = state_.plan;
  refusals_.Joined(session->task);
  Info(absl::StrCat(session->task, " joined (", session->device, ")"));
  Emit(AnswerJoin{call, std::move(reply)});
}

}  // namespace paracord
