#include "coordinator/coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/data_plan.h"
#include "common/failpoint.h"
#include "common/json_text.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "coordinator/commit.h"
#include "coordinator/generations.h"
#include "coordinator/leftovers.h"
#include "net/protocol.h"
#include "net/rpc_proto.h"

namespace paracord {
namespace {

constexpr int64_t kRetryStorageMs = 1000;
constexpr int64_t kChartMs = 2000;

std::string CheckpointsOf(const std::string& dir) { return dir + "/checkpoints"; }

// Each generation has a file of its own, so that a late write never hides a newer one.
absl::Status WriteState(Files& files, const std::string& dir, uint64_t generation,
                        const std::string& contents) {
  const std::string path = absl::StrCat(dir, "/", kStatePrefix);
  RETURN_IF_ERROR(files.WriteAtomic(absl::StrCat(path, generation), contents));
  RETURN_IF_ERROR(CheckNewestGeneration(files, dir, generation));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states, NumbersOf(files, dir, kStatePrefix));
  for (const uint64_t state : states) {
    if (state < generation) (void)files.RemoveTree(absl::StrCat(path, state));
  }
  return absl::OkStatus();
}

// Of a manifest: another look would find the same.
bool SaysDamaged(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

// Of storage at the start: room may be made, and a mount may answer again.
bool MayRecover(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsUnknown(status);
}

ExitCode ExitCodeFor(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return ExitCode::kConfiguration;
  if (absl::IsUnimplemented(status)) return ExitCode::kVersion;
  if (absl::IsAlreadyExists(status)) return ExitCode::kFenced;
  return ExitCode::kPeerLost;
}

// That a job is to train in all, if nothing stops it before.
uint64_t BatchesOf(const Job& job, const DataPlan& plan) {
  return job.steps.value_or(job.epochs * BatchesPerEpoch(plan));
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, Environment environment,
                         std::function<void(int exit_code, std::string reason)> exit)
    : options_(std::move(options)),
      environment_(environment),
      exit_(std::move(exit)),
      log_("coordinator"),
      alive_(std::make_shared<bool>(true)) {}

Coordinator::~Coordinator() { *alive_ = false; }

absl::StatusOr<FoundInDir> Coordinator::LookInDir() {
  Files& files = environment_.files;
  FoundInDir found;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states,
                   NumbersOf(files, options_.dir, kStatePrefix));
  if (!states.empty()) {
    const std::string path = Path(absl::StrCat(kStatePrefix, states.back()));
    ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(path));
    absl::StatusOr<JobState> state = ParseJobState(text, path);
    if (state.ok()) {
      found.job_state = *std::move(state);
    } else {
      found.damaged.push_back(std::string(state.status().message()));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                   ListCheckpoints(files, CheckpointsOf(options_.dir)));
  absl::Status unread;
  for (const CheckpointName& name : checkpoints) {
    absl::StatusOr<Manifest> manifest =
        ReadManifest(files, CheckpointsOf(options_.dir) + "/" + name.ToString());
    if (manifest.ok()) {
      found.manifests.push_back(*std::move(manifest));
    } else {
      found.unreadable.insert(name.ToString());
      found.damaged.push_back(absl::StrCat("checkpoint ", name.ToString(), " is refused: ",
                                           std::string(manifest.status().message())));
      if (!SaysDamaged(manifest.status())) unread = manifest.status();
    }
  }
  // The storage may have recovered when the next life looks.
  if (found.manifests.empty()) RETURN_IF_ERROR(unread);
  return found;
}

absl::StatusOr<bool> Coordinator::CheckFound(FoundInDir& found) const {
  std::string before;
  DataPlan plan;
  if (found.job_state.has_value()) {
    before = found.job_state->job_json;
    plan = found.job_state->plan;
  } else if (!found.manifests.empty()) {
    before = found.manifests.front().job_json;
    plan = found.manifests.front().plan;
  }
  if (!before.empty()) {
    ASSIGN_OR_RETURN(Job job_before, ParseJob(before));
    const bool same_end = job_before.stop_when == options_.job.stop_when;
    RETURN_IF_ERROR(CheckResumable(std::move(job_before), options_.job, plan.split_batches()));
    if (!same_end && found.job_state.has_value()) found.job_state->stop.reset();
  }
  if (found.manifests.empty()) return false;
  const Manifest& newest = found.manifests.front();
  ASSIGN_OR_RETURN(const Job then, ParseJob(newest.job_json));
  const uint64_t batches = BatchesOf(options_.job, newest.plan);
  // A job that is complete may be given more epochs or steps, or another end.
  if (newest.complete && batches <= BatchesOf(then, newest.plan) &&
      options_.job.stop_when == then.stop_when) {
    return true;
  }
  if (batches >= newest.name.step) return false;
  return absl::InvalidArgumentError(absl::StrCat(
      options_.job.steps.has_value() ? "steps" : "epochs", ": that is ", batches, " batches, but ",
      newest.name.step, " are applied in checkpoint ", newest.name.ToString(),
      "; give at least as many, or begin anew in another --dir"));
}

absl::StatusOr<uint64_t> Coordinator::ClaimFirst() {
  Files& files = environment_.files;
  ASSIGN_OR_RETURN(const uint64_t newest, NewestGeneration(files, options_.dir));
  if (newest == std::numeric_limits<uint64_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path("generation-"), newest,
                     " was not made by a coordinator: there is no number after it"));
  }
  RETURN_IF_ERROR(Claim(files, options_.dir, newest + 1));
  return newest + 1;
}

void Coordinator::Start(std::string address) {
  address_ = std::move(address);
  TryToBegin();
}

void Coordinator::TryToBegin() {
  if (exiting_) return;
  const absl::Status begun = Begin();
  if (begun.ok() || exiting_) return;
  const int64_t now_ms = environment_.loop.NowMs();
  const int64_t patience_ms = static_cast<int64_t>(options_.job.timeouts.start_s * 1000);
  const int64_t since_ms = storage_awaited_since_ms_.value_or(now_ms);
  if (!MayRecover(begun) || now_ms - since_ms >= patience_ms) {
    exiting_ = true;
    exit_(static_cast<int>(ExitCodeFor(begun)), std::string(begun.message()));
    return;
  }
  if (!storage_awaited_since_ms_.has_value()) {
    log_.Warn("waits for the storage, at most {} s: {}", patience_ms / 1000,
              std::string(begun.message()));
    PROBE("coordinator.storage.awaited");
    storage_awaited_since_ms_ = now_ms;
  }
  environment_.loop.PostAfter(kRetryStorageMs, [this, alive = alive_] {
    if (*alive) TryToBegin();
  });
}

// What an earlier run said of its end is no longer true, but a result that was finished is kept:
// this run may come to nothing.
absl::Status Coordinator::SetSummaryAside() {
  Files& files = environment_.files;
  const absl::StatusOr<std::string> text = files.ReadWhole(Path(kSummaryName));
  const nlohmann::json summary = text.ok() ? JsonOf(*text) : nlohmann::json();
  if (summary.is_object() && summary.value("status", nlohmann::json()) == "done") {
    RETURN_IF_ERROR(files.WriteAtomic(Path(kDoneSummaryName), *text));
  }
  return files.RemoveTree(Path(kSummaryName));
}

absl::Status Coordinator::Begin() {
  Files& files = environment_.files;
  RETURN_IF_ERROR(files.MakeDirectories(CheckpointsOf(options_.dir)));
  ASSIGN_OR_RETURN(FoundInDir found, LookInDir());
  ASSIGN_OR_RETURN(bool done, CheckFound(found));
  if (!done) {
    // What an earlier coordinator wrote after the look above is seen by the one below, and what it
    // writes later it does not act on, because it finds our claim then.
    ASSIGN_OR_RETURN(const uint64_t generation, ClaimFirst());
    if (!MUTANT("claim_after_look")) {
      ASSIGN_OR_RETURN(found, LookInDir());
    }
    ASSIGN_OR_RETURN(done, CheckFound(found));
    found.generation = generation;
  }
  if (done) {
    nlohmann::json summary = found.manifests.front().summary;
    if (summary.is_object()) summary.erase("metric_names");
    RETURN_IF_ERROR(files.WriteAtomic(Path(kSummaryName), TextOf(summary, 2) + "\n"));
    exiting_ = true;
    exit_(static_cast<int>(ExitCode::kDone), "the job is done already");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(SetSummaryAside());
  if (!found.manifests.empty()) {
    log_.Info("going on from checkpoint {}", found.manifests.front().name.ToString());
  }
  environment_.executor.Run(
      [&files, dir = CheckpointsOf(options_.dir), generation = found.generation] {
        RemoveLeftovers(files, dir, generation);
      },
      [] {});
  CoreOptions core{.job = options_.job,
                   .ps_addresses = options_.ps_addresses,
                   .workers = options_.workers,
                   .boot_id = environment_.random.NextId(),
                   .new_run_id = environment_.random.NextId(),
                   .dir = options_.dir,
                   .started_unix_ms = environment_.loop.UnixMs()};
  for (const auto& ps : core.ps_addresses) links_.push_back(environment_.network.Dial(ps));
  if (options_.charts) {
    events_ = std::make_shared<EventFile>(files, Path("tensorboard"), found.generation);
  }
  core_ = std::make_unique<CoordinatorCore>(std::move(core), std::move(found),
                                            environment_.loop.NowMs());
  evaluations_charted_ = core_->evaluations();
  if (!address_.empty()) {
    (void)files.WriteAtomic(Path("coordinator.address"), address_ + "\n");
  }
  Tick();
  return absl::OkStatus();
}

void Coordinator::Tick() {
  if (exiting_) return;
  Feed(TickEvent());
  WriteCharts();
  environment_.loop.PostAfter(kTickMs, [this, alive = alive_] {
    if (*alive) Tick();
  });
}

void Coordinator::WriteCharts() {
  if (events_ == nullptr || exiting_) return;
  const int64_t now_ms = environment_.loop.NowMs();
  std::vector<Chart> charts;
  if (core_->phase() == CoordinatorCore::Phase::kTraining && now_ms - charted_ms_ >= kChartMs) {
    charts.push_back(core_->TrainingChart(now_ms));
    charted_ms_ = now_ms;
  }
  // A restore may have taken some back; they are scored again.
  evaluations_charted_ = std::min(evaluations_charted_, core_->evaluations());
  for (Chart& chart : core_->EvaluationCharts(evaluations_charted_)) {
    charts.push_back(std::move(chart));
    ++evaluations_charted_;
  }
  if (charts.empty()) return;
  const auto written = std::make_shared<absl::Status>();
  environment_.executor.Run(
      [written, events = events_, unix_ms = environment_.loop.UnixMs(),
       charts = std::move(charts)] { *written = events->Append(unix_ms, charts); },
      [this, alive = alive_, written] {
        if (!*alive) return;
        if (!written->ok() && !charts_failed_) {
          log_.Warn("charts are left out: {}", std::string(written->message()));
        }
        charts_failed_ = !written->ok();
      });
}

void Coordinator::Feed(const Event& event) {
  if (core_ == nullptr || exiting_) return;
  const TraceSpan span("event");
  std::vector<Effect> effects = core_->Step(environment_.loop.NowMs(), event);
  for (Effect& effect : effects) {
    std::visit([this](auto& e) { CarryOut(e); }, effect);
  }
}

template <class Request, class EventType>
void Coordinator::TakeCall(const absl::Cord& bytes, std::shared_ptr<ServerCall> call) {
  const std::unique_ptr<Request> request = ParseRequest<Request>(bytes, *call);
  if (request == nullptr) return;
  const CallId id = ++last_call_;
  calls_[id] = std::move(call);
  Feed(EventType{id, std::move(*request)});
}

void Coordinator::TakeHold(const absl::Cord& bytes, std::shared_ptr<ServerCall> call) {
  const auto request = ParseRequest<WorkerHoldRequest>(bytes, *call);
  if (request == nullptr) return;
  const CallId id = ++last_call_;
  const uint64_t session = request->session();
  calls_[id] = call;
  Feed(WorkerHoldEvent{id, session});
  call->OnCancel([this, alive = alive_, id, session, &loop = environment_.loop] {
    loop.Post([this, alive, id, session] {
      if (!*alive || !calls_.contains(id)) return;
      calls_.erase(id);
      Feed(WorkerHoldLostEvent{id, session});
    });
  });
}

void Coordinator::Handle(std::string_view method, absl::Cord request,
                         std::shared_ptr<ServerCall> call) {
  environment_.loop.Post([this, alive = alive_, name = std::string(method),
                          bytes = std::move(request), call = std::move(call)]() mutable {
    if (!*alive) return;
    if (core_ == nullptr) {
      call->Reply(absl::UnavailableError("the coordinator is starting"));
    } else if (name == method::kJoin) {
      TakeCall<JoinRequest, JoinEvent>(bytes, std::move(call));
    } else if (name == method::kWork) {
      TakeCall<WorkRequest, WorkEvent>(bytes, std::move(call));
    } else if (name == method::kWorkerHold) {
      TakeHold(bytes, std::move(call));
    } else if (name == method::kStatus) {
      StatusReply reply;
      reply.set_json(core_->StatusJson(environment_.loop.NowMs()));
      call->Reply(ToParts(reply));
    } else {
      call->Reply(absl::UnimplementedError("a coordinator has no method " + name));
    }
  });
}

void Coordinator::Drain() {
  if (core_ != nullptr) return Feed(DrainEvent());
  exiting_ = true;
  exit_(static_cast<int>(ExitCode::kDrained), "SIGTERM before the start");
}

void Coordinator::OnFiles(std::function<Event()> work) {
  const auto result = std::make_shared<std::optional<Event>>();
  environment_.executor.Run([work = std::move(work), result] { *result = work(); },
                            [this, alive = alive_, result] {
                              if (*alive) Feed(**result);
                            });
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

void Coordinator::CarryOut(CallPs& effect) {
  Link& link = *links_[effect.ps];
  const auto send = [&]<class Reply>(std::string_view name, const auto& request) {
    CallProto<Reply>(link, name, request, effect.deadline_ms,
                     [this, alive = alive_, &loop = environment_.loop, ps = effect.ps,
                      tag = effect.tag](absl::StatusOr<Reply> reply) {
                       loop.Post([this, alive, ps, tag, reply = std::move(reply)]() mutable {
                         if (!*alive) return;
                         PsAnswerEvent event{ps, tag, absl::UnknownError("")};
                         if (reply.ok()) {
                           event.reply = PsReply(*std::move(reply));
                         } else {
                           event.reply = reply.status();
                         }
                         Feed(event);
                       });
                     });
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
  OnFiles(
      [&files = environment_.files, dir = options_.dir, generation = effect.generation]() -> Event {
        return GenerationClaimedEvent{generation, Claim(files, dir, generation)};
      });
}

void Coordinator::CarryOut(WriteJobState& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, effect]() -> Event {
    Event event = JobStateWrittenEvent{WriteState(files, dir, effect.generation, effect.contents)};
    FAILPOINT("coordinator.job_state.written");
    return event;
  });
}

void Coordinator::CarryOut(FindNewestGeneration&) {
  OnFiles([&files = environment_.files, dir = options_.dir]() -> Event {
    return NewestGenerationEvent{NewestGeneration(files, dir).value_or(0)};
  });
}

void Coordinator::CarryOut(MakeRoundDirectory& effect) {
  OnFiles([&files = environment_.files, round = effect.round,
           path = CheckpointsOf(options_.dir) + "/" + effect.directory]() -> Event {
    Event event = RoundDirectoryMadeEvent{round, files.MakeDirectories(path)};
    FAILPOINT("coordinator.round.made");
    return event;
  });
}

void Coordinator::CarryOut(CommitRound& effect) {
  OnFiles([&files = environment_.files, dir = options_.dir, effect]() -> Event {
    // Before it too: one that was stopped for long would leave a checkpoint to the job of another.
    const uint64_t generation = effect.manifest.name.generation;
    absl::Status status = CheckNewestGeneration(files, dir, generation);
    if (status.ok()) status = Commit(files, CheckpointsOf(dir), effect);
    if (status.ok()) status = CheckNewestGeneration(files, dir, generation);
    return RoundCommittedEvent{effect.round, status};
  });
}

void Coordinator::CarryOut(RemoveCheckpoints& effect) {
  environment_.executor.Run(
      [&files = environment_.files, dir = CheckpointsOf(options_.dir),
       directories = std::move(effect.directories)] {
        for (const std::string& directory : directories) {
          // The manifest goes first, for good: half a checkpoint must not look like one.
          const std::string path = dir + "/" + directory;
          (void)files.RemoveTree(path + "/" + std::string(kManifestName));
          const absl::Status synced = files.SyncDirectory(path);
          if (synced.ok() || absl::IsNotFound(synced)) (void)files.RemoveTree(path);
        }
      },
      [] {});
}

void Coordinator::CarryOut(WriteSummary& effect) {
  OnFiles([&files = environment_.files, path = Path(kSummaryName),
           contents = std::move(effect.contents)]() -> Event {
    Event event = SummaryWrittenEvent{files.WriteAtomic(path, contents)};
    FAILPOINT("coordinator.summary.written");
    return event;
  });
}

void Coordinator::CarryOut(Log& effect) {
  switch (effect.level) {
    case Log::Level::kInfo:
      return log_.Info("{}", effect.text);
    case Log::Level::kWarning:
      return log_.Warn("{}", effect.text);
    case Log::Level::kError:
      return log_.Error("{}", effect.text);
  }
}

void Coordinator::CarryOut(Exit& effect) {
  exiting_ = true;
  exit_(effect.code, effect.reason);
}

}  // namespace paracord
