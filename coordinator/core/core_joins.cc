// Joins: the answers to a worker before it has a session, and refusals.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "config/cluster.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "proto/protocol.h"
#include "storage/claim.h"

namespace paracord {
namespace {

constexpr size_t kDeviceBytesMax = 64;
constexpr size_t kNumericsBytesMax = 128;

JoinReply WaitReply(std::string reason) {
  JoinReply reply;
  reply.set_wait(std::move(reason));
  return reply;
}

uint32_t DevicesOf(const JoinRequest& request) {
  return std::clamp(request.devices(), 1u, kLanesMax);
}

// Bounds the parts of a request that are kept, logged or shown.
absl::Status CheckJoin(const JoinRequest& request) {
  if (const uint64_t bytes = request.facts().ByteSizeLong(); bytes > kKeptReportBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("facts: what a worker found in the job's files has ", HumanBytes(bytes),
                     ", and at most ", HumanBytes(kKeptReportBytesMax), " are taken"));
  }
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

void CoordinatorCore::Handle(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  // The worker belongs to the run of another job and reached us by an address that changed hands.
  // Its facts do not concern our job, and its task name may be in use here.
  if (!request.run_id().empty() && request.run_id() != record_.run_id()) {
    JoinReply reply;
    reply.set_other_run(record_.run_id());
    return effects_.Emit(AnswerJoin{event.call, std::move(reply)});
  }
  if (phases_.ended()) {
    sessions_.Told(request.task());
    if (end_.alone()) {
      return effects_.Emit(AnswerJoin{event.call, WaitReply("the coordinator is leaving")});
    }
    return effects_.Emit(
        AnswerJoin{event.call, LeaveReply<JoinReply>({end_.exit().code, "the job has ended"})});
  }
  if (request.protocol() != kProtocol) {
    return effects_.Emit(AnswerJoin{
        event.call,
        LeaveReply<JoinReply>({static_cast<int>(ExitCode::kVersion),
                               absl::StrCat("this coordinator speaks protocol ", kProtocol,
                                            ", the worker ", request.protocol())})});
  }
  if (const absl::Status known = CheckJoin(request); !known.ok()) {
    return refusals_.Refuse(event.call, ExitCode::kConfiguration, std::string(known.message()),
                            absl::StrCat("a join is refused: ", known.message()), now_ms_);
  }
  if (!request.error().empty()) return CannotTakePart(event);
  if (sessions_.Displaced(request.boot_id())) {
    return refusals_.Refuse(
        event.call, ExitCode::kInUse,
        absl::StrCat("another process has taken the place of ", request.task()),
        absl::StrCat("an earlier life of ", request.task(), " came back and is sent away"),
        now_ms_);
  }
  sessions_.Asked(request.task());
  if (!record_.begun()) agreement_.Came(request.task());
  // The worker may have the job of an earlier coordinator.
  if (!request.has_facts() || request.facts().job() != record_.fingerprint()) {
    JoinReply reply;
    reply.set_job_json(record_.job_json());
    reply.set_job(record_.fingerprint());
    return effects_.Emit(AnswerJoin{event.call, std::move(reply)});
  }
  if (record_.fixed()) return TakeWithFacts(event);
  if (!record_.begun()) {
    Agreement::Outcome outcome = agreement_.Add(request.task(), request.facts(), now_ms_);
    if (!outcome.facts.has_value()) {
      return effects_.Emit(AnswerJoin{event.call, WaitReply(std::move(outcome.waits))});
    }
    if (!outcome.differs.empty()) effects_.Warn(std::move(outcome.differs));
    BeginJob(options_.new_run_id, *outcome.facts, DevicesOf(request));
  }
  if (phases_.ended()) {
    return effects_.Emit(
        AnswerJoin{event.call, LeaveReply<JoinReply>({end_.exit().code, "the job has ended"})});
  }
  effects_.Emit(AnswerJoin{event.call, WaitReply("the job is being created")});
}

// Opens a session for a worker whose facts are the job's.
void CoordinatorCore::TakeWithFacts(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  if (const std::optional<std::string> why = record_.Differs(request.facts()); why.has_value()) {
    if (FactsMayChange()) return TakeOtherFacts(event, *why);
    const std::string reason = absl::StrCat(request.task(), " is refused: ", *why);
    refusals_.Remember(request.task(), *why);
    return refusals_.Refuse(event.call, ExitCode::kConfiguration, reason, reason, now_ms_);
  }
  record_.NameMetrics(request.facts());
  agreement_.Confirm(request.task());
  if (!ps_.AllAre(PsState::kReady) || move_.keeps_workers_out()) {
    return effects_.Emit(AnswerJoin{event.call, WaitReply(WaitReason(View()))});
  }
  if (!sessions_.MayOpen(request.task(), generation_.claimed(), now_ms_)) {
    const std::string why =
        absl::StrCat(request.task(), " has joined ", kSessionsAMinuteMax, " times in a minute");
    refusals_.Log(absl::StrCat(why, " and has to wait"), now_ms_);
    return effects_.Emit(AnswerJoin{event.call, WaitReply(why)});
  }
  OpenSession(event.call, request);
}

// Whether a single worker fixed the job, and nothing would be lost if other facts replaced its
// facts.
bool CoordinatorCore::FactsMayChange() const {
  return agreement_.FixedByOneWorker() && !end_.planned() && checkpoints_.newest() == nullptr &&
         record_.counters().checkpoints == 0 && evaluations_.results().empty() &&
         training_.closed() == 0 && !ps_.AnyEntered();
}

// One worker may have wrong files, or lie: two workers with equal facts are believed.
void CoordinatorCore::TakeOtherFacts(const JoinEvent& event, const std::string& why) {
  const JoinRequest& request = event.request;
  // Only of a ready ps it is known what it holds.
  const bool settled = ps_.AllAre(PsState::kReady) && !generation_.claiming() &&
                       !record_.writer().pending() && !record_.writer().again();
  if (settled && agreement_.Disagree(request.task(), request.facts())) {
    effects_.Warn(
        absl::StrCat("two workers find the same in the files, other than the one that the ",
                     "job was begun with: ", request.task(), ": ", why,
                     "; nothing is trained yet, and the job begins anew with it"));
    BeginAnew(request.facts(), DevicesOf(request));
    return effects_.Emit(AnswerJoin{event.call, WaitReply("the job is being created")});
  }
  refusals_.Remember(request.task(), why);
  refusals_.Log(absl::StrCat(request.task(), " waits: ", why), now_ms_);
  effects_.Emit(AnswerJoin{
      event.call,
      WaitReply(absl::StrCat(why, "; this waits for another worker that finds the same"))});
}

void CoordinatorCore::CannotTakePart(const JoinEvent& event) {
  const JoinRequest& request = event.request;
  const std::string error = OneLine(request.error(), kSendableBytesMax);
  const std::string why = absl::StrCat(request.task(), " cannot take part: ", error);
  refusals_.Refuse(event.call, ExitCode::kConfiguration, request.error(), why, now_ms_);
  refusals_.Remember(request.task(), "it cannot take part: " + error);
  if (record_.begun()) return;
  const bool all = agreement_.CannotTakePart(request.task(), now_ms_);
  if (all) EndJob(ExitCode::kConfiguration, "failed", why);
}

// Warns, without refusing the worker, that gradients may differ in the last bits: a mixed cluster
// trains as well.
void CoordinatorCore::NoteNumerics(const JoinRequest& request) {
  const std::string numerics = OneLine(request.numerics(), kNumericsBytesMax);
  if (!job_.guarantees.sync() || numerics.empty()) return;
  const std::optional<std::string> other = sessions_.NoteNumerics(request.task(), numerics);
  if (!other.has_value()) return;
  effects_.Warn(absl::StrCat(
      request.task(), " computes with \"", numerics, "\" and ", *other,
      ": their gradients may differ in the last bits, so the bits of this job depend on who "
      "computes which lane; the same hardware, programs and `threads` on all workers give the "
      "same"));
}

void CoordinatorCore::OpenSession(CallId call, const JoinRequest& request) {
  // The earlier process of the task is over, through no fault of a batch.
  const std::optional<uint64_t> earlier = sessions_.Of(request.task());
  const bool restored = record_.counters().coordinator_recoveries > 0;
  const bool other_life =
      sessions_.BeginLife(request.task(), request.boot_id(), restored && !request.run_id().empty());
  if (earlier.has_value()) {
    if (other_life) ++record_.counters().worker_recoveries;
    EndSession(*earlier, "the same task joined again", false);
  }
  WorkerSession* const session =
      sessions_.Open(request.task(), OneLine(request.device(), kDeviceBytesMax), now_ms_);
  if (session == nullptr) {
    return effects_.Emit(AnswerJoin{call, WaitReply("there are too many workers")});
  }
  session->devices = DevicesOf(request);
  NoteNumerics(request);
  JoinReply reply;
  Session& opened = *reply.mutable_session();
  opened.set_claim(ClaimText(generation_.claimed(), options_.boot_id));
  opened.set_dir(options_.ShownDir());
  opened.set_id(session->id);
  opened.set_run_id(record_.run_id());
  opened.set_generation(generation_.claimed());
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (!ps_.Needed(i)) continue;
    PsInfo& info = *opened.add_ps();
    info.set_address(ps_.all()[i].address);
    info.set_boot_id(ps_.all()[i].description.boot_id());
  }
  for (const PartitionSpec& partition : ps_.layout()) {
    PartitionSpec& placed = *opened.add_partitions();
    placed = partition;
    placed.set_ps(ps_.PlaceOf(partition.ps()));
    for (uint32_t& copy : *placed.mutable_copies()) copy = ps_.PlaceOf(copy);
  }
  *opened.mutable_plan() = record_.plan();
  refusals_.Joined(session->task);
  effects_.Info(absl::StrCat(session->task, " joined (", session->device, ")"));
  effects_.Emit(AnswerJoin{call, std::move(reply)});
}

}  // namespace paracord
