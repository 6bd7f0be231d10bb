#include "coordinator/coordinator.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/protocol.h"
#include "common/rpc_proto.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr char kGenerationPrefix[] = "generation-";

std::string CheckpointsOf(const std::string& dir) { return dir + "/checkpoints"; }

// Makes the round's directory durable, gives it its final name, and writes the manifest last: the
// checkpoint exists from then on.
absl::Status Commit(Files& files, const std::string& checkpoints, const std::string& directory,
                    const Manifest& manifest) {
  const std::string made = checkpoints + "/" + directory;
  const std::string final = checkpoints + "/" + manifest.name.ToString();
  FAILPOINT("coordinator.commit.begin");
  RETURN_IF_ERROR(files.SyncDirectory(made));
  RETURN_IF_ERROR(files.Rename(made, final));
  RETURN_IF_ERROR(files.SyncDirectory(checkpoints));
  FAILPOINT("coordinator.commit.renamed");
  RETURN_IF_ERROR(
      files.WriteAtomic(final + "/" + std::string(kManifestName), ManifestToText(manifest)));
  FAILPOINT("coordinator.commit.done");
  return absl::OkStatus();
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

ExitCode Coordinator::ExitCodeFor(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return ExitCode::kConfiguration;
  if (absl::IsUnimplemented(status)) return ExitCode::kVersion;
  return ExitCode::kPeerLost;
}

absl::StatusOr<FoundInDir> Coordinator::LookInDir() {
  Files& files = environment_.files;
  RETURN_IF_ERROR(files.MakeDirectories(CheckpointsOf(options_.dir)));
  FoundInDir found;
  bool has_state = false;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(options_.dir));
  for (const std::string& name : names) {
    uint64_t generation = 0;
    if (name.starts_with(kGenerationPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kGenerationPrefix) - 1), &generation)) {
      found.newest_generation = std::max(found.newest_generation, generation);
    }
    has_state = has_state || name == "job.state";
  }
  if (has_state) {
    ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(Path("job.state")));
    absl::StatusOr<JobState> state = ParseJobState(text, Path("job.state"));
    if (state.ok()) {
      found.job_state = *std::move(state);
    } else {
      found.damaged.push_back(std::string(state.status().message()));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                   ListCheckpoints(files, CheckpointsOf(options_.dir)));
  for (const CheckpointName& name : checkpoints) {
    absl::StatusOr<Manifest> manifest =
        ReadManifest(files, CheckpointsOf(options_.dir) + "/" + name.ToString());
    if (manifest.ok()) {
      found.manifests.push_back(*std::move(manifest));
    } else {
      found.unreadable.insert(name.ToString());
      found.damaged.push_back(absl::StrCat("checkpoint ", name.ToString(), " is refused: ",
                                           std::string(manifest.status().message())));
    }
  }
  return found;
}

absl::Status Coordinator::Start() {
  ASSIGN_OR_RETURN(FoundInDir found, LookInDir());
  std::string before;
  if (found.job_state.has_value()) {
    before = found.job_state->job_json;
  } else if (!found.manifests.empty()) {
    before = found.manifests.front().job_json;
  }
  if (!before.empty()) {
    ASSIGN_OR_RETURN(const Job job_before, ParseJob(before));
    RETURN_IF_ERROR(CheckResumable(job_before, options_.job));
  }
  if (!found.manifests.empty() && found.manifests.front().complete &&
      !MoreToDo(found.manifests.front())) {
    nlohmann::json summary = found.manifests.front().summary;
    summary.erase("metric_names");
    RETURN_IF_ERROR(environment_.files.WriteAtomic(Path("summary.json"), summary.dump(2) + "\n"));
    exiting_ = true;
    exit_(static_cast<int>(ExitCode::kDone), "the job is done already");
    return absl::OkStatus();
  }
  if (!found.manifests.empty()) {
    log_.Info("going on from checkpoint {}", found.manifests.front().name.ToString());
  }
  for (const std::string& address : options_.ps_addresses) {
    links_.push_back(environment_.network.Dial(address));
  }
  CoreOptions core{options_.job, options_.ps_addresses, environment_.random.NextId(),
                   environment_.random.NextId(), environment_.loop.UnixMs()};
  core_ = std::make_unique<CoordinatorCore>(std::move(core), std::move(found),
                                            environment_.loop.NowMs());
  Tick();
  return absl::OkStatus();
}

// A job that is complete may be given more epochs or steps.
bool Coordinator::MoreToDo(const Manifest& complete) const {
  const absl::StatusOr<Job> before = ParseJob(complete.job_json);
  if (!before.ok()) return false;
  return options_.job.epochs > before->epochs ||
         options_.job.steps.value_or(0) > before->steps.value_or(0);
}

void Coordinator::Tick() {
  if (exiting_) return;
  Feed(TickEvent());
  environment_.loop.PostAfter(kTickMs, [this, alive = alive_] {
    if (*alive) Tick();
  });
}

void Coordinator::Feed(const Event& event) {
  if (core_ == nullptr || exiting_) return;
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
      Feed(WorkerHoldLostEvent{session});
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

void Coordinator::Drain() { Feed(DrainEvent()); }

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
  OnFiles([&files = environment_.files, dir = options_.dir, generation = effect.generation] {
    const std::string path = absl::StrCat(dir, "/", kGenerationPrefix, generation);
    const Event event = GenerationClaimedEvent{
        generation, files.CreateExclusive(path, absl::StrCat("generation ", generation, "\n"))};
    FAILPOINT("coordinator.generation.claimed");
    // The claims before the last few have nothing left to say.
    constexpr uint64_t kKeep = 8;
    if (generation > kKeep) {
      (void)files.RemoveTree(absl::StrCat(dir, "/", kGenerationPrefix, generation - kKeep));
    }
    return event;
  });
}

void Coordinator::CarryOut(WriteJobState& effect) {
  OnFiles([&files = environment_.files, path = Path("job.state"),
           contents = std::move(effect.contents)]() -> Event {
    const Event event = JobStateWrittenEvent{files.WriteAtomic(path, contents)};
    FAILPOINT("coordinator.job_state.written");
    return event;
  });
}

void Coordinator::CarryOut(MakeRoundDirectory& effect) {
  OnFiles([&files = environment_.files, round = effect.round,
           path = CheckpointsOf(options_.dir) + "/" + effect.directory]() -> Event {
    const Event event = RoundDirectoryMadeEvent{round, files.MakeDirectories(path)};
    FAILPOINT("coordinator.round.made");
    return event;
  });
}

void Coordinator::CarryOut(CommitRound& effect) {
  OnFiles([&files = environment_.files, dir = CheckpointsOf(options_.dir), effect]() -> Event {
    return RoundCommittedEvent{effect.round, Commit(files, dir, effect.directory, effect.manifest)};
  });
}

void Coordinator::CarryOut(RemoveCheckpoints& effect) {
  environment_.executor.Run(
      [&files = environment_.files, dir = CheckpointsOf(options_.dir),
       directories = std::move(effect.directories)] {
        for (const std::string& directory : directories) {
          // The manifest goes first: half a checkpoint must not look like one.
          const std::string path = dir + "/" + directory;
          (void)files.RemoveTree(path + "/" + std::string(kManifestName));
          (void)files.RemoveTree(path);
        }
      },
      [] {});
}

void Coordinator::CarryOut(WriteSummary& effect) {
  OnFiles([&files = environment_.files, path = Path("summary.json"),
           contents = std::move(effect.contents)]() -> Event {
    const Event event = SummaryWrittenEvent{files.WriteAtomic(path, contents)};
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
