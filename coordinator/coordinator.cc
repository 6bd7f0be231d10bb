#include "coordinator/coordinator.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "common/trace.h"
#include "coordinator/commit.h"
#include "coordinator/core/report.h"
#include "coordinator/generations.h"
#include "coordinator/leftovers.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kChartMs = 2000;

// Each generation writes its own file, so a late write of an old coordinator never hides a newer
// state.
absl::Status WriteState(Files& files, const std::string& dir, uint64_t generation,
                        const JobState& state) {
  const std::string path = absl::StrCat(dir, "/", kStatePrefix);
  RETURN_IF_ERROR(files.WriteAtomic(absl::StrCat(path, generation), JobStateToText(state)));
  RETURN_IF_ERROR(CheckNewestGeneration(files, dir, generation));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states, NumbersOf(files, dir, kStatePrefix));
  for (const uint64_t older : states) {
    if (older < generation) (void)files.RemoveTree(absl::StrCat(path, older));
  }
  return absl::OkStatus();
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, Environment environment,
                         std::function<void(int exit_code, std::string reason)> exit)
    : options_(std::move(options)),
      environment_(environment),
      exit_(std::move(exit)),
      boot_id_(environment.random.NextId()),
      log_("coordinator"),
      remover_(std::make_shared<CheckpointRemover>(environment.files,
                                                   CheckpointsDirectory(options_.dir))) {}

void Coordinator::Tick() {
  if (exiting_) return;
  Feed(TickEvent());
  Remember();
  WriteCharts();
  environment_.loop.PostAfter(kTickMs, gate_.Enter([this] { Tick(); }));
}

void Coordinator::WriteCharts() {
  if (events_ == nullptr || exiting_) return;
  const int64_t now_ms = environment_.loop.NowMs();
  const JobView job = core_->View();
  std::vector<Chart> charts;
  if (job.phases.training() && now_ms - charted_ms_ >= kChartMs) {
    charts.push_back(Report(job, now_ms).TrainingChart());
    charted_ms_ = now_ms;
  }
  // After a restore the results may be fewer; the dropped epochs are scored again.
  evaluations_charted_ = std::min(evaluations_charted_, job.evaluations.told().size());
  for (Chart& chart : EvaluationCharts(job, evaluations_charted_)) {
    charts.push_back(std::move(chart));
    ++evaluations_charted_;
  }
  if (charts.empty()) return;
  const auto written = std::make_shared<absl::Status>();
  environment_.executor.Run(
      [written, events = events_, unix_ms = environment_.loop.UnixMs(),
       charts = std::move(charts)] { *written = events->Append(unix_ms, charts); },
      gate_.Enter([this, written] {
        if (!written->ok() && !charts_failed_) {
          log_.Warn("charts are left out: {}", std::string(written->message()));
        }
        charts_failed_ = !written->ok();
      }));
}

void Coordinator::Feed(const Event& event) {
  if (core_ == nullptr || exiting_) return;
  const TraceSpan span("event");
  std::vector<Effect> effects = core_->Step(environment_.loop.NowMs(), event);
  for (Effect& effect : effects) {
    std::visit([this](auto& e) { CarryOut(e); }, effect);
  }
}

// Whether the caller's credentials are those of `task`. A certificate without an index speaks for
// every task of its role.
bool Coordinator::SpeaksFor(const std::string& task, ServerCall& call) const {
  const std::string caller(call.caller());
  const bool any = caller.find(':') == std::string::npos;
  if (task.empty() || caller == task || (any && task.starts_with(caller))) return true;
  call.Reply(absl::PermissionDeniedError(
      absl::StrCat("the certificate is of ", caller, ", which may not speak for ", task)));
  return false;
}

template <class Request, class EventType>
void Coordinator::TakeCall(const absl::Cord& bytes, std::shared_ptr<ServerCall> call) {
  const std::unique_ptr<Request> request = ParseRequest<Request>(bytes, *call);
  if (request == nullptr) return;
  if constexpr (std::is_same_v<Request, JoinRequest>) {
    if (!SpeaksFor(request->task(), *call)) return;
  } else {
    if (!SpeaksFor(core_->TaskOf(request->session()), *call)) return;
  }
  const CallId id = ++last_call_;
  calls_[id] = std::move(call);
  Feed(EventType{id, std::move(*request)});
}

void Coordinator::TakeHold(const absl::Cord& bytes, std::shared_ptr<ServerCall> call) {
  const auto request = ParseRequest<WorkerHoldRequest>(bytes, *call);
  if (request == nullptr || !SpeaksFor(core_->TaskOf(request->session()), *call)) return;
  const CallId id = ++last_call_;
  const uint64_t session = request->session();
  calls_[id] = call;
  Feed(WorkerHoldEvent{id, session});
  call->OnCancel(gate_.EnterOn(environment_.loop, [this, id, session] {
    if (calls_.erase(id) > 0) Feed(WorkerHoldLostEvent{id, session});
  }));
}

HealthState Coordinator::Health() const {
  if (core_ != nullptr) return {true, absl::StrCat("leads generation ", core_->generation())};
  if (storage_problem_.empty()) return {false, "is starting"};
  return {false, "waits for the storage: " + storage_problem_};
}

void Coordinator::Handle(std::string_view method, absl::Cord request,
                         std::shared_ptr<ServerCall> call) {
  environment_.loop.Post(gate_.Enter([this, name = std::string(method), bytes = std::move(request),
                                      call = std::move(call)]() mutable {
    if (core_ == nullptr) {
      call->Reply(absl::UnavailableError(absl::StrCat(
          "the coordinator ",
          storage_problem_.empty() ? "is starting" : "waits for the storage: ", storage_problem_)));
    } else if (name == method::kJoin) {
      TakeCall<JoinRequest, JoinEvent>(bytes, std::move(call));
    } else if (name == method::kWork) {
      TakeCall<WorkRequest, WorkEvent>(bytes, std::move(call));
    } else if (name == method::kWorkerHold) {
      TakeHold(bytes, std::move(call));
    } else if (name == method::kScale) {
      const auto asked = ParseRequest<ScaleRequest>(bytes, *call);
      if (asked == nullptr) return;
      const CallId id = ++last_call_;
      calls_[id] = std::move(call);
      Feed(ScaleEvent{id, std::move(*asked)});
    } else if (name == method::kStatus) {
      const std::unique_ptr<StatusRequest> asked = ParseRequest<StatusRequest>(bytes, *call);
      if (asked == nullptr) return;
      StatusReply reply;
      reply.set_json(
          Report(core_->View(), environment_.loop.NowMs()).StatusJson(asked->history_from()));
      if (options_.certificate_expires_s != nullptr) {
        nlohmann::json status = JsonOf(reply.json());
        AddCertificate(status);
        reply.set_json(TextOf(status));
      }
      call->Reply(ToParts(reply));
    } else {
      call->Reply(absl::UnimplementedError("a coordinator has no method " + name));
    }
  }));
}

void Coordinator::Drain(const std::string& signal) {
  if (core_ != nullptr) return Feed(DrainEvent{signal});
  if (!exiting_) LeaveWith({static_cast<int>(ExitCode::kDrained), signal + " before the start"});
}

void Coordinator::OnFiles(std::function<Event()> work) {
  const auto result = std::make_shared<std::optional<Event>>();
  environment_.executor.Run([work = std::move(work), result] { *result = work(); },
                            gate_.Enter([this, result] { Feed(**result); }));
}

std::shared_ptr<ServerCall> Coordinator::ReleaseCall(CallId id) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return nullptr;
  std::shared_ptr<ServerCall> call = std::move(it->second);
  calls_.erase(it);
  return call;
}

void Coordinator::CarryOut(AnswerJoin& effect) {
  if (const auto call = ReleaseCall(effect.call)) call->Reply(ToParts(effect.reply));
}

void Coordinator::CarryOut(AnswerWork& effect) {
  if (effect.reply.has_evaluation()) FAILPOINT("coordinator.evaluation.leased");
  if (const auto call = ReleaseCall(effect.call)) call->Reply(ToParts(effect.reply));
}

void Coordinator::CarryOut(AnswerHold& effect) {
  const auto call = ReleaseCall(effect.call);
  if (call == nullptr) return;
  if (effect.reply.ok()) {
    call->Reply(ToParts(*effect.reply));
  } else {
    call->Reply(effect.reply.status());
  }
}

void Coordinator::CarryOut(AnswerScale& effect) {
  const auto call = ReleaseCall(effect.call);
  if (call == nullptr) return;
  if (effect.reply.ok()) {
    call->Reply(ToParts(*effect.reply));
  } else {
    call->Reply(effect.reply.status());
  }
}

void Coordinator::CarryOut(CallPs& effect) {
  if (effect.ps >= links_.size()) links_.resize(effect.ps + 1);
  if (!effect.dial.empty()) links_[effect.ps] = environment_.network.Dial(effect.dial);
  Link& link = *links_[effect.ps];
  const auto send = [&]<class Reply>(std::string_view name, const auto& request) {
    CallProto<Reply>(link, name, request, effect.deadline_ms,
                     gate_.EnterOn(environment_.loop, [this, ps = effect.ps, tag = effect.tag](
                                                          absl::StatusOr<Reply> reply) {
                       PsAnswerEvent event{ps, tag, absl::UnknownError("")};
                       if (reply.ok()) {
                         event.reply = PsReply(*std::move(reply));
                       } else {
                         event.reply = reply.status();
                       }
                       Feed(event);
                     }));
  };
  if (const auto* describe = std::get_if<DescribeRequest>(&effect.request)) {
    send.operator()<PsDescription>(method::kDescribe, *describe);
  } else if (const auto* adopt = std::get_if<AdoptRequest>(&effect.request)) {
    send.operator()<PsDescription>(method::kAdopt, *adopt);
  } else if (const auto* load = std::get_if<LoadRequest>(&effect.request)) {
    send.operator()<PsDescription>(method::kLoad, *load);
  } else if (const auto* snapshot = std::get_if<SnapshotRequest>(&effect.request)) {
    send.operator()<SnapshotReply>(method::kSnapshot, *snapshot);
  } else if (const auto* hold = std::get_if<PsHoldRequest>(&effect.request)) {
    send.operator()<PsHoldReply>(method::kPsHold, *hold);
  } else {
    send.operator()<FinishReply>(method::kFinish, std::get<FinishRequest>(effect.request));
  }
}

void Coordinator::CarryOut(ClaimGeneration& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, boot_id = boot_id_,
           generation = effect.generation]() -> Event {
    return GenerationClaimedEvent{generation, Claim(files, dir, generation, boot_id)};
  });
}

void Coordinator::CarryOut(WriteJobState& effect) {
  // Formatting thousands of variables or evaluations takes too long for the loop.
  OnFiles([&files = environment_.files, dir = options_.dir, effect = std::move(effect)]() -> Event {
    Event event = JobStateWrittenEvent{WriteState(files, dir, effect.generation, effect.state)};
    FAILPOINT("coordinator.job_state.written");
    return event;
  });
}

void Coordinator::CarryOut(FindNewestGeneration& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, obeyed = effect.obeyed]() -> Event {
    return NewestGenerationEvent{NewestGeneration(files, dir), obeyed};
  });
}

void Coordinator::CarryOut(MakeRoundDirectory& effect) {
  OnFiles([&files = environment_.files, round = effect.round,
           folder = CheckpointsDirectory(options_.dir) + "/", directory = effect.directory,
           chain = std::move(effect.chain)]() -> Event {
    RoundDirectoryMadeEvent event{round, files.MakeDirectories(folder + directory)};
    // A base removed by hand would make every increment built on it worthless.
    const auto gone = std::ranges::find_if(chain, [&](const std::string& name) {
      return absl::IsNotFound(files.Open(folder + name + "/" + kManifestName).status());
    });
    if (gone != chain.end()) event.gone = *gone;
    FAILPOINT("coordinator.round.made");
    return event;
  });
}

void Coordinator::CarryOut(CommitRound& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, effect]() -> Event {
    // Also before the commit: a coordinator that was suspended for long would leave its checkpoint
    // in the newer coordinator's directory.
    absl::Status status = CheckNewestGeneration(files, dir, effect.generation);
    if (status.ok()) status = Commit(files, CheckpointsDirectory(dir), effect);
    if (status.ok()) status = CheckNewestGeneration(files, dir, effect.generation);
    return RoundCommittedEvent{effect.round, status};
  });
}

void Coordinator::CarryOut(RemoveCheckpoints& effect) {
  const auto errors = std::make_shared<std::vector<absl::Status>>();
  environment_.executor.Run(
      [errors, remover = remover_, names = std::move(effect.directories)] {
        *errors = remover->Remove(names);
      },
      gate_.Enter([this, errors] {
        for (const absl::Status& error : *errors) {
          Log said{Log::Level::kWarning, Text(error)};
          CarryOut(said);
        }
      }));
}

void Coordinator::CarryOut(RemoveUncommittedRound& effect) {
  OnFiles([&files = environment_.files, dir = CheckpointsDirectory(options_.dir),
           manifest = std::move(effect.manifest)]() -> Event {
    return RoundGivenUpEvent{manifest, RemoveUncommitted(files, dir, manifest.name.ToString())};
  });
}

void Coordinator::CarryOut(WriteSummary& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, effect = std::move(effect)]() -> Event {
    Event event =
        SummaryWrittenEvent{WriteLastSummary(files, dir, effect.generation, effect.contents)};
    FAILPOINT("coordinator.summary.written");
    return event;
  });
}

void Coordinator::CarryOut(Log& effect) {
  const char* const level = effect.level == Log::Level::kInfo      ? "info"
                            : effect.level == Log::Level::kWarning ? "warn"
                                                                   : "error";
  history_.AddEvent(environment_.loop.UnixMs(), level, effect.text);
  switch (effect.level) {
    case Log::Level::kInfo:
      return log_.Info("{}", effect.text, "peer"_a = effect.peer, "reason"_a = effect.reason);
    case Log::Level::kWarning:
      return log_.Warn("{}", effect.text, "peer"_a = effect.peer, "reason"_a = effect.reason);
    case Log::Level::kError:
      return log_.Error("{}", effect.text, "peer"_a = effect.peer, "reason"_a = effect.reason);
  }
}

void Coordinator::CarryOut(Exit& effect) { LeaveWith(std::move(effect)); }

}  // namespace paracord
