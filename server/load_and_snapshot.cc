// Load and Snapshot: orders that take long. The executor carries them out; a repeated order joins
// the running order, and the result of an order overtaken by a newer generation is dropped.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "config/data_plan.h"
#include "net/rpc_proto.h"
#include "server/parameter_server_impl.h"
#include "storage/claim.h"
#include "store/loader.h"
#include "store/round_gate.h"
#include "store/snapshot.h"

namespace paracord {
namespace {

// Checks the order by itself; the fence has been checked.
absl::Status CheckSnapshotOrder(const SnapshotRequest& request, uint32_t index) {
  if (request.directory() != RoundDirectory(request.fence().generation(), request.round())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.directory(), "\" is no directory of round ", request.round(),
                     " in generation ", request.fence().generation()));
  }
  if (!request.base().empty() && !ParseCheckpointName(request.base()).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.base(), "\" is no name of a checkpoint"));
  }
  // Only ps that write a file are numbered, so a file's number is at most the index of its ps.
  if (request.ps() > index || request.ps() >= request.ps_count()) {
    return absl::InvalidArgumentError(absl::StrCat("this is ps ", index, ", the order is for ",
                                                   request.ps(), " of ", request.ps_count()));
  }
  return absl::OkStatus();
}

// Checks that the ps holds all partitions that the order wants written.
absl::Status CheckWritten(const SnapshotRequest& request, const PartitionSet& content) {
  for (const uint32_t id : request.only()) {
    if (content.Find(id) != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a snapshot of partition ", id, " is ordered, which is not held here"));
  }
  return absl::OkStatus();
}

// A snapshot of a synchronous job is a cut, because partitions of two states make no checkpoint.
absl::Status CheckCut(const SnapshotRequest& request, const PartitionSet& content) {
  if (!content.sync && !request.has_cut()) return absl::OkStatus();
  if (!content.sync) {
    return absl::InvalidArgumentError(
        "a `cut` is ordered, and the job, whose \"consistency\" is not \"sync\", has no rounds "
        "that "
        "partitions apply whole");
  }
  if (!request.has_cut()) {
    return absl::InvalidArgumentError(
        "the snapshot of a job whose \"consistency\" is \"sync\" lacks its `cut`: it would have "
        "partitions of different states");
  }
  return CheckState(content.plan, request.cut(), content.batches_end);
}

// NOT_FOUND: the coordinator's DIR is another directory than the DIR of this ps.
absl::Status CheckSameDir(Files& files, const std::string& dir, const LoadRequest& request) {
  if (request.claim().empty()) return absl::OkStatus();
  const uint64_t generation = request.fence().generation();
  ASSIGN_OR_RETURN(const bool same, SeesClaim(files, dir, generation, request.claim()));
  if (same) return absl::OkStatus();
  PROBE("ps.load.other_dir");
  return absl::NotFoundError(absl::StrCat(dir, " holds no ", kGenerationPrefix, generation,
                                          " of the coordinator: it is not the same directory"));
}

}  // namespace

// Changes the code of a file's error (a mount that timed out, is stale or cannot be reached), since
// the caller would take the code for the fate of the call.
absl::Status ParameterServer::Impl::OfFiles(const absl::Status& status) {
  const bool like_a_call =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
  return like_a_call ? absl::UnknownError(status.message()) : status;
}

void ParameterServer::Impl::Give(Answers& answers) {
  for (auto& [call, answer] : answers.calls) call->Reply(std::move(answer));
  answers.calls.clear();
  // Partitions that wait with images drop the images on the executor, before the executor begins
  // any later order.
  for (std::shared_ptr<Writing>& writing : answers.voided) {
    if (!writing->cut.has_value()) continue;
    environment_.executor.Run([writing = std::move(writing)] { writing->task->Forget(); }, [] {});
  }
  answers.voided.clear();
}

// Takes a new learning rate and new timeouts, which a returning coordinator may bring.
void ParameterServer::Impl::Keep(const LoadRequest& request, const CallPtr& call) {
  std::shared_ptr<const PartitionSet> content;
  const auto keep = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Job job, ParseJob(request.job_json()));
    ASSIGN_OR_RETURN(const Optimizer optimizer, ParseOptimizer(job.optimizer));
    {
      MutexLock lock(mu_);
      RETURN_IF_ERROR(CheckOrder(request.fence(), request.coordinator_boot_id(), /*held=*/true));
      content = content_;
    }
    if (content == nullptr) return absl::AbortedError("the ps holds nothing to keep");
    const std::vector<VariableSpec> all(request.variables().begin(), request.variables().end());
    RETURN_IF_ERROR(CheckOwnOptimizers(all));
    std::vector<std::pair<Partition*, LearningRate>> rates;
    for (const PartitionSpec& spec : request.partitions()) {
      Partition* const partition = content->Find(spec.id());
      const auto variables = static_cast<uint32_t>(request.variables_size());
      if (partition == nullptr || spec.variable() >= variables) {
        return absl::InvalidArgumentError(absl::StrCat("no partition ", spec.id(), " to keep"));
      }
      const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
      rates.emplace_back(partition, OptimizerFor(variable, optimizer).learning_rate);
    }
    {
      MutexLock lock(mu_);
      settings_.clear();  // only some partitions may have the new rate if a newer order comes
    }
    const PushFence fence(generation_, request.fence().generation());
    const bool current = std::ranges::all_of(
        rates, [&](const auto& rate) { return rate.first->SetLearningRate(rate.second, fence); });
    MutexLock lock(mu_);
    if (!current || content_ != content)
      return absl::AbortedError("a newer order came while this one was carried out");
    timeouts_ = job.timeouts;
    parked_->SetDeadline(timeouts_.ps_ms);
    settings_ = PsSettings(job);
    content->batches_end = BatchesOfJob(content->plan, job.epochs, job.steps);
    environment_.loop.Post(
        Enter([this, orphan_ms = job.timeouts.orphan_ms] { ArmOrphanTimer(orphan_ms); }));
    return absl::OkStatus();
  };
  const absl::Status kept = keep();
  if (!kept.ok()) return call->Reply(kept);
  log_.Info("takes over the settings of a job that has changed");
  call->Reply(ToParts(Description(/*intervals=*/true)));
}

void ParameterServer::Impl::Load(LoadRequest request, const CallPtr& call) {
  if (request.keep()) return Keep(request, call);
  if (request.prepare()) return Prepare(std::move(request), call);
  Answers answers;
  std::shared_ptr<const PartitionSet> dropped;  // destroyed after the lock is released
  std::shared_ptr<PendingOrders::Loading> started;
  bool answer_now = false;
  const auto begin = [&]() -> absl::Status {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckOrder(request.fence(), request.coordinator_boot_id(), /*held=*/false));
    if (request.fence().run_id().empty()) return absl::InvalidArgumentError("Load without a run");
    answer_now = content_ != nullptr && content_->loaded_generation == generation_;
    if (answer_now) PROBE("ps.load.repeated");
    if (answer_now || closed_) return absl::OkStatus();
    // A running order belongs to this generation: Adopt voids older orders.
    ASSIGN_OR_RETURN(started, orders_.Load(call, answers));
    if (started != nullptr) dropped = std::exchange(content_, nullptr);
    return absl::OkStatus();
  };
  const absl::Status begun = begin();
  if (dropped != nullptr) {
    waiting_->EndAll(absl::AbortedError("the ps loads its partitions anew"));
  }
  Give(answers);
  if (!begun.ok()) return call->Reply(begun);
  if (answer_now) return call->Reply(ToParts(Description(/*intervals=*/true)));
  if (started == nullptr) return;
  if (!request.retain()) dropped = nullptr;
  RunLoad(std::move(request), std::move(dropped), started);
}

void ParameterServer::Impl::RunLoad(LoadRequest request, std::shared_ptr<const PartitionSet> held,
                                    const std::shared_ptr<PendingOrders::Loading>& loading) {
  using Result = absl::StatusOr<std::shared_ptr<const PartitionSet>>;
  const auto result = std::make_shared<Result>(absl::CancelledError("not loaded"));
  environment_.executor.Run(
      [result, loading, &files = environment_.files, dir = options_.dir,
       bytes_max = options_.partition_bytes_max, pinned = pinned_, memory = memory_,
       held = std::move(held), prepared = TakePrepared(), request = std::move(request)] {
        FAILPOINT("ps.load.begin");
        const absl::Status same = CheckSameDir(files, dir, request);
        loading->other_dir = absl::IsNotFound(same);
        if (same.ok()) {
          *result = LoadContent(files, dir, bytes_max, pinned, *memory, *loading->damage, request,
                                {held.get(), prepared.get()});
        } else {
          *result = same;
        }
      },
      Enter([this, result, loading] { Loaded(loading, std::move(*result)); }));
}

void ParameterServer::Impl::Loaded(const std::shared_ptr<PendingOrders::Loading>& loading,
                                   absl::StatusOr<std::shared_ptr<const PartitionSet>> content) {
  FAILPOINT("ps.load.loaded");
  std::optional<std::vector<CallPtr>> waiting;
  {
    MutexLock lock(mu_);
    waiting = orders_.EndLoad(loading);
    if (!waiting.has_value()) return;
    if (content.ok()) {
      content_ = *content;
      timeouts_ = content_->timeouts;
      parked_->SetDeadline(timeouts_.ps_ms);
      settings_ = content_->settings;
    }
  }
  HeardFromCoordinator();
  if (content.ok()) {
    watch_.Loaded();
    ArmOrphanTimer((*content)->timeouts.orphan_ms);  // the job may say less than the options
    log_.Info("loaded {} partitions of run {}", (*content)->partitions.size(), (*content)->run_id);
    if (!(*content)->drawn.empty()) log_.Info("{}", (*content)->drawn);
  } else if (!loading->other_dir ||
             !other_dir_said_.exchange(true)) {  // the coordinator retries each second
    log_.Error("cannot load: {}", Text(content.status()));
  }
  for (const CallPtr& call : *waiting) {
    if (content.ok() || loading->other_dir) {
      PsDescription description = Description(/*intervals=*/true);
      if (loading->other_dir) {
        description.set_other_dir(
            absl::StrCat(options_.dir, options_.host.empty() ? "" : " on host ", options_.host));
      }
      call->Reply(ToParts(description));
    } else {
      call->Reply(OfFiles(content.status()));
    }
  }
}

void ParameterServer::Impl::Snapshot(const SnapshotRequest& request, const CallPtr& call) {
  Answers answers;
  std::shared_ptr<Writing> started;
  std::shared_ptr<const PartitionSet> content;
  const auto begin = [&]() -> absl::Status {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckOrder(request.fence(), request.coordinator_boot_id(), /*held=*/true));
    ASSIGN_OR_RETURN(content, CheckContent(request.fence()));
    RETURN_IF_ERROR(CheckSnapshotOrder(request, options_.index));
    RETURN_IF_ERROR(CheckCut(request, *content));
    RETURN_IF_ERROR(CheckWritten(request, *content));
    ASSIGN_OR_RETURN(started, orders_.Snapshot(request.round(), call, answers));
    if (started != nullptr) MakeTask(request, std::move(content), *started);
    return absl::OkStatus();
  };
  const absl::Status begun = begin();
  Give(answers);
  if (!begun.ok()) return call->Reply(begun);
  if (started == nullptr) return;
  if (request.has_cut()) {
    TakeCut(request, started);
  } else {
    TakeAndWrite(request, started);
  }
}

void ParameterServer::Impl::MakeTask(const SnapshotRequest& request,
                                     std::shared_ptr<const PartitionSet> content,
                                     Writing& writing) const {
  SnapshotOrder order;
  order.directory = absl::StrCat(CheckpointsDirectory(options_.dir), "/", request.directory());
  order.identity = {.run_id = content->run_id,
                    .generation = request.fence().generation(),
                    .round = request.round(),
                    .ps = request.ps(),
                    .ps_count = request.ps_count(),
                    .boot_id = boot_id_};
  order.changes.base = ParseCheckpointName(request.base());
  if (request.continued()) {
    order.changes.own = {.generation = request.fence().generation(), .round = request.round()};
  }
  order.only.assign(request.only().begin(), request.only().end());
  if (request.has_cut()) writing.cut = request.cut();
  writing.content = std::move(content);
  writing.task =
      std::make_unique<SnapshotTask>(environment_.files, *writing.content, std::move(order),
                                     *memory_->snapshots(), writing.voided);
}

void ParameterServer::Impl::TakeAndWrite(const SnapshotRequest& request,
                                         const std::shared_ptr<Writing>& writing) {
  const auto result = std::make_shared<SnapshotResult>(absl::CancelledError("not written"));
  environment_.executor.Run(
      [result, writing, &files = environment_.files, base = CheckpointsDirectory(options_.dir),
       name = request.directory()] {
        absl::Status taken = files.CheckBeneath(base, name);
        if (taken.ok()) taken = writing->task->TakeNow();
        *result = taken.ok() ? writing->task->Write() : SnapshotResult(taken);
        writing->task->Forget();
      },
      Enter([this, result, writing] { Wrote(writing, std::move(*result)); }));
}

// A job on the executor makes the images and leaves each image with its partition. After the last
// partition reaches the cut, a second job writes the images. No thread blocks in between.
void ParameterServer::Impl::TakeCut(const SnapshotRequest& request,
                                    const std::shared_ptr<Writing>& writing) {
  // Partitions hold this object, which keeps nothing else alive.
  auto taken = [&loop = environment_.loop, weak = weak_from_this(),
                of = std::weak_ptr<Writing>(writing)] {
    loop.Post([weak, of] {
      const auto self = weak.lock();
      const auto taken_now = of.lock();
      if (self != nullptr && taken_now != nullptr) self->WriteTaken(taken_now);
    });
  };
  const auto armed = std::make_shared<absl::Status>(absl::CancelledError("not taken"));
  environment_.executor.Run(
      [armed, writing, taken = std::move(taken), &files = environment_.files,
       base = CheckpointsDirectory(options_.dir), name = request.directory()] {
        *armed = files.CheckBeneath(base, name);
        if (armed->ok()) *armed = writing->task->TakeAt(*writing->cut, taken);
        if (!armed->ok()) writing->task->Forget();
      },
      Enter([this, armed, writing] {
        if (!armed->ok()) Wrote(writing, *armed);
      }));
}

void ParameterServer::Impl::WriteTaken(const std::shared_ptr<Writing>& writing) {
  {
    MutexLock lock(mu_);
    if (!orders_.IsUnderWay(writing)) return;
  }
  const auto result = std::make_shared<SnapshotResult>(absl::CancelledError("not written"));
  environment_.executor.Run(
      [result, writing] {
        *result = writing->task->Write();
        writing->task->Forget();
      },
      Enter([this, result, writing] { Wrote(writing, std::move(*result)); }));
}

void ParameterServer::Impl::Wrote(const std::shared_ptr<Writing>& writing, SnapshotResult reply) {
  std::optional<std::vector<CallPtr>> waiting;
  {
    MutexLock lock(mu_);
    waiting = orders_.EndSnapshot(writing, reply);
  }
  if (!waiting.has_value()) return;
  HeardFromCoordinator();
  const bool late = absl::IsOutOfRange(reply.status());  // the next cut is ordered further ahead
  if (!reply.ok() && !late) {
    ++figures_.snapshots_failed;
    // The code for a directory that is gone would hide the cause, perhaps a full disk.
    if (absl::IsNotFound(reply.status())) {
      reply = absl::NotFoundError(
          absl::StrCat(Text(reply.status()),
                       ": the coordinator has given the round up and removed its directory, and "
                       "its log says why"));
    }
    log_.Warn("cannot write the snapshot: {}", Text(reply.status()));
  }
  for (const CallPtr& call : *waiting) {
    if (reply.ok()) {
      call->Reply(ToParts(*reply));
    } else {
      call->Reply(reply.status());
    }
  }
}

}  // namespace paracord
