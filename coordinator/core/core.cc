#include "coordinator/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/core/report.h"

namespace paracord {
namespace {

constexpr int64_t kStoppedMs = 10 * kTickMs;  // this long without a tick

}  // namespace

CoordinatorCore::CoordinatorCore(CoreOptions options, FoundInDir found, int64_t now_ms)
    : options_(std::move(options)),
      job_(options_.job),
      now_ms_(now_ms),
      ticked_ms_(now_ms),
      forms_since_ms_(now_ms),
      phases_(now_ms),
      record_(job_),
      generation_(found.generation),
      ps_(options_, generation_, effects_, now_ms),
      sessions_(Fingerprint64(options_.boot_id), options_.workers, effects_),
      stalls_(now_ms, effects_),
      agreement_(options_.workers, options_.agree_ms),
      refusals_(effects_),
      evaluations_(options_.job),
      failures_(
          options_.job.failures,
          found.job_state.has_value() ? found.job_state->rejected : std::vector<RejectedBatch>(),
          effects_),
      checkpoints_(std::move(found.manifests), std::move(found.unreadable)),
      rounds_(checkpoints_.newest_name().round, options_.job.checkpoint.every_seconds, effects_) {
  if (!found.damaged_state.empty()) effects_.Warn(found.damaged_state);
  for (const auto& [name, why] : checkpoints_.refused()) {
    effects_.Warn(absl::StrCat("checkpoint ", name, " is refused: ", why));
  }
  if (found.job_state.has_value()) {
    evaluations_.Restore(std::exchange(found.job_state->evaluations, {}),
                         std::exchange(found.job_state->stop, {}));
    const nlohmann::json epochs = std::exchange(found.job_state->history, {});
    const nlohmann::json open = std::exchange(found.job_state->history_open, {});
    record_.Restore(*std::move(found.job_state));
    RestoreHistory(epochs, open);
  } else if (const Manifest* const newest = checkpoints_.newest()) {
    effects_.Warn("job.state is missing: going on from the manifest of " + newest->name.ToString());
    record_.Restore(*newest);
    RestoreHistory(nullptr, nullptr);
  } else {
    return;
  }
  ps_.SetRun(record_.run_id());
  ps_.TakeOver(record_.replaced_run_id());
  ++record_.counters().coordinator_recoveries;
  record_.SaysRecoveries(Recoveries());
  // A list of ps that differs from the one before the move is a new decision of the person who
  // starts the coordinator.
  if (record_.layout().has_value()) {
    if (record_.layout()->given == options_.ps_addresses) {
      ps_.SetPs(record_.layout()->ps, now_ms);
    } else {
      record_.SetLayout(std::nullopt);
    }
  }
  SaveJobState();
  PlaceLayout();
}

JobView CoordinatorCore::View() const {
  return {options_,    phases_,   record_,  generation_,  ps_,           sessions_, refusals_,
          throughput_, training_, history_, lane_leases_, evaluations_,  failures_, checkpoints_,
          rounds_,     end_,      move_,    copies_,      samples_found_};
}

std::vector<Effect> CoordinatorCore::Step(int64_t now_ms, const Event& event) {
  now_ms_ = now_ms;
  NoticeStop();
  if (std::holds_alternative<TickEvent>(event)) ticked_ms_ = now_ms_;
  if (!phases_.ended() || !std::holds_alternative<TickEvent>(event)) {
    std::visit([this](const auto& e) { Handle(e); }, event);
  }
  if (!phases_.ended()) {
    const std::optional<std::string> lost = ps_.Drive(now_ms_, phases_.formed());
    if (lost.has_value() && !PromoteSeconds(/*unprepared=*/true) && !MayFormWithoutAway()) {
      EndJob(ExitCode::kPeerLost, "failed", *lost);
    }
    DriveCopies(std::holds_alternative<TickEvent>(event));
    DriveMove();
    DriveFormation();
    DriveRounds();
    ServeParked(std::holds_alternative<TickEvent>(event));
    if (record_.begun()) SaveRecoveries();
  } else if (!end_.exited()) {
    if (end_.told()) ps_.Tell(end_.exit(), now_ms_);
    const Shutdown::Others others{
        .ps_told = ps_.AllTold(end_.told()),
        .workers_told = sessions_.AllTold(),
        .workers_named = !options_.workers.empty(),
        .written = !summary_writer_.pending() && !record_.writer().pending()};
    if (end_.ExitsNow(others, phases_.formed_ms(), now_ms_)) effects_.Emit(end_.exit());
  }
  return effects_.Take();
}

// This coordinator did not run for a while: its process or machine was suspended, or the loop was
// busy. It heard nobody, so nobody counts as silent; connections may have broken because of its own
// silence.
void CoordinatorCore::NoticeStop() {
  const int64_t stopped_ms = now_ms_ - ticked_ms_;
  if (stopped_ms < kStoppedMs) return;
  PROBE("coordinator.stopped");
  ticked_ms_ = now_ms_;
  sessions_.Forgive(stopped_ms, now_ms_);
  ps_.Forgive(stopped_ms, now_ms_);
  forms_since_ms_ += stopped_ms;
}

// Ends a job whose cluster has not formed in time. A ps that sees another DIR is never ready, so
// the deadline applies even if the remaining ps hold their partitions.
void CoordinatorCore::CheckStartDeadline() {
  const std::string other_dirs = ps_.OtherDirs();
  const bool waits = !Living() || (!phases_.formed() && !other_dirs.empty());
  if (!waits || phases_.ended() || now_ms_ - forms_since_ms_ <= job_.timeouts.start_s * 1000) {
    return;
  }
  EndJob(other_dirs.empty() ? ExitCode::kPeerLost : ExitCode::kConfiguration, "failed",
         absl::StrCat("the cluster did not form within timeouts.start_s = ", job_.timeouts.start_s,
                      " s: ", other_dirs.empty() ? MissingTasks(View()) : other_dirs));
}

void CoordinatorCore::Handle(const TickEvent&) {
  const int64_t silent_ms = job_.timeouts.worker_ms;
  for (const uint64_t id : sessions_.Silent(now_ms_, silent_ms)) {
    EndSession(id, absl::StrCat("it was silent for ", silent_ms, " ms"), true);
  }
  JudgeDeaths();
  stalls_.Say(View(), now_ms_);
  throughput_.Tick(now_ms_);
  CheckStartDeadline();
  if (end_.Overdue(now_ms_) && !phases_.ended()) {
    const Ending& ending = end_.ending();
    EndJob(ending.code, ending.status,
           absl::StrCat(ending.reason, "; no checkpoint within timeouts.drain_ms",
                        rounds_.problem().empty() ? "" : ": ", rounds_.problem()));
  }
  if (record_.writer().Due(now_ms_)) SaveJobState();
  if (!phases_.ended()) summary_writer_.Tick(generation_, now_ms_);
}

void CoordinatorCore::Handle(const GenerationClaimedEvent& event) {
  const Generation::Claim claim = generation_.EndClaim(event.generation, event.status, now_ms_);
  summary_writer_.ClaimEnded(generation_);
  if (claim == Generation::Claim::kLost) {
    PROBE("coordinator.claim.lost");
    return Leave(ExitCode::kFenced,
                 absl::StrCat("another coordinator has claimed generation ", event.generation));
  }
  if (claim == Generation::Claim::kFailed) {
    const std::string why(event.status.message());
    effects_.Warn("cannot claim a generation: " + why);
    if (!Living()) EndJob(ExitCode::kPeerLost, "failed", "--dir is not usable: " + why);
    return;  // DriveFormation claims again
  }
  if (claim == Generation::Claim::kLeapt && record_.begun()) SaveJobState();
  training_.Fenced();
  ps_.BeginGeneration();
  rollback_.BeginGeneration();
  gaps_.Forget();
  effects_.Info(absl::StrCat("generation ", generation_.claimed()));
}

void CoordinatorCore::Handle(const NewestGenerationEvent& event) {
  if (!event.generation.ok()) return;  // the next look will follow
  if (*event.generation > generation_.newest()) {
    PROBE("coordinator.superseded.found");
    return Leave(ExitCode::kFenced,
                 absl::StrCat("another coordinator has claimed generation ", *event.generation));
  }
  if (phases_.ended()) return;
  if (event.obeyed >= generation_.newest() && !generation_.claiming() && !phases_.formed()) {
    effects_.Warn(absl::StrCat(options_.dir, " holds no claim of generation ", event.obeyed,
                               ", which a ps obeys: claiming the next one"));
    generation_.Skip(event.obeyed);
    return ClaimNextGeneration("a ps obeys a generation that nobody has claimed here");
  }
  // Nothing is lost while all ps hold their partitions: a checkpoint of them can still be taken.
  const bool needs_load = ps_.AnyNeedsLoad() || rollback_.lacks_checkpoint();
  if (phases_.now() == Phase::kLoading && needs_load &&
      checkpoints_.Lost(record_.counters().checkpoints)) {
    const std::string why = checkpoints_.LostReason(options_.dir, record_.counters().checkpoints);
    if (checkpoints_.doubted()) return Leave(ExitCode::kPeerLost, why);
    evaluations_.Clear();
    EndJob(ExitCode::kNoCheckpoint, "failed", why);
  }
}

void CoordinatorCore::SetPhase(Phase phase) {
  if (phase == phases_.now()) return;
  if (phases_.training()) throughput_.Stop(now_ms_);
  if (phase != Phase::kTraining) history_.Stop(now_ms_);
  if (phase == Phase::kTraining) throughput_.Start(now_ms_);
  const bool formed = phases_.Begin(phase, now_ms_);
  if (formed && !end_.planned()) rounds_.BeginLater(now_ms_);
}

// Decides what comes next from the ledgers of all partitions, read in this generation.
void CoordinatorCore::AdvanceEpoch() {
  if (summary_writer_.done() || evaluations_.unsaved()) return;
  const std::vector<const Ledger*> ledgers = ps_.Ledgers();
  if (!samples_found_.has_value()) {
    samples_found_ = Report(View(), now_ms_).samples();
    // The job would end with partitions at different batches. A longer job can go on with them.
    const uint64_t reached = BatchesReached(ledgers, record_.plan());
    if (reached > Extent().batches()) {
      return Leave(ExitCode::kConfiguration,
                   TooFewBatches(job_, Extent().batches(), reached, "on a ps"), /*alone=*/true);
    }
  }
  // In a new generation no push that could change the ledgers is in flight.
  const uint64_t splits_per_epoch = SplitsPerEpoch(record_.plan());
  if (generation_.wanted().empty() &&
      failures_.Decide(ledgers, splits_per_epoch, job_.guarantees.sync())) {
    SaveJobState();
  }
  const JobExtent extent = Extent();
  const OpenEpoch open = training_.FirstOpen(ledgers, record_.plan(), extent);
  const uint64_t epoch = open.epoch;
  // A score needs all partitions at the end of one epoch. An epoch that some partition has passed
  // is not scored (again): partitions restored to its end would be scored together with partitions
  // that are further.
  const uint64_t begun = EpochsBegun(ledgers, splits_per_epoch);
  const uint64_t voided_from = std::max(epoch, begun > 0 ? begun - 1 : 0);
  if (evaluations_.Void(voided_from)) {
    return SaveJobState();  // once it is durable, the ledgers are read again
  }
  if (epoch < extent.epochs() && training_.IsOpen(epoch)) {
    DropUnfounded(open.next);
    training_.table()->Load(open.next);  // leases stay valid
    SetPhase(Phase::kTraining);
    history_.Run(epoch, now_ms_);
    failures_.PlaceDeaths(epoch, open.next, now_ms_,
                          job_.guarantees.sync() ? LeaseOrder::kByReportedRound
                          : HasLanes()           ? LeaseOrder::kByRound
                                                 : LeaseOrder::kAsGranted);
    if (StateIsLost(open, ledgers)) return;
    return CheckRejected();
  }
  CloseHistory(epoch);
  if (training_.CloseBefore(epoch)) {
    // A restore may take the job back to the oldest checkpoint; the batches after it then have to
    // be rejected again.
    const uint64_t replayed = checkpoints_.LeastEntered(extent.batches());
    failures_.ForgetBefore(std::min(epoch, replayed / BatchesPerEpoch(record_.plan())));
  }
  training_.Close();
  failures_.ForgetDeaths();
  gaps_.Forget();
  BeginEpoch(open, begun);
}

// Scores the epoch that was closed, finishes the job, or opens the next epoch.
void CoordinatorCore::BeginEpoch(const OpenEpoch& open, uint64_t begun) {
  const uint64_t epoch = open.epoch;
  const JobExtent extent = Extent();
  const bool to_score = begun <= epoch || epoch >= extent.epochs();
  const uint64_t test_records = record_.plan().test_records();
  if (epoch > 0 && to_score && test_records > 0 && evaluations_.Due(epoch - 1, extent.epochs()) &&
      !evaluations_.Has(epoch - 1)) {
    evaluations_.Start(generation_.claimed(), epoch - 1, test_records, record_.metric_names());
    return SetPhase(Phase::kEvaluating);
  }
  if (epoch >= extent.epochs()) {
    if (FailNotFinite()) return;
    SetPhase(Phase::kFinishing);
    return rounds_.MayBegin(now_ms_);  // the final checkpoint, repeated if it fails
  }
  const EvaluationResult* const best = evaluations_.KeptBest();
  rounds_.WantBest(begun <= epoch && best != nullptr && best->epoch + 1 == epoch &&
                   !rounds_.BestGivenUp() && View().BestCheckpoint() == nullptr);
  if (rounds_.best_wanted()) {
    PROBE("coordinator.best.kept");
    SetPhase(Phase::kEvaluating);  // training waits until a checkpoint holds the scored state
    rounds_.MayBegin(now_ms_);
    return;
  }
  training_.Open(open, extent.BatchesOfEpoch(epoch), record_.plan());
  // Reports of the previous epoch may still arrive.
  sessions_.ForgetGivenBefore((epoch - std::min<uint64_t>(epoch, 1)) *
                              SplitsPerEpoch(record_.plan()));
  if (HasLanes()) lane_leases_.Begin(*training_.table(), now_ms_);
  NoteBatchesAgain(open);
  SetPhase(Phase::kTraining);
  history_.Run(epoch, now_ms_);
  CheckRejected();
}

void CoordinatorCore::Handle(const SummaryWrittenEvent& event) {
  summary_writer_.Written();
  if (absl::IsAborted(event.status)) {
    PROBE("coordinator.summary.fenced");
    if (!phases_.ended()) {
      return Leave(ExitCode::kFenced, std::string(event.status.message()));
    }
    end_.Fenced();
  }
  if (phases_.ended()) return;
  if (event.status.ok()) return Leave(ExitCode::kDone, "the job is done");
  const std::string why =
      absl::StrCat("summary.json is not written: ", std::string(event.status.message()));
  effects_.Error(why);
  if (summary_writer_.Failed(now_ms_)) Leave(ExitCode::kPeerLost, why);
}

void CoordinatorCore::EndJob(ExitCode code, const std::string& status, const std::string& reason) {
  if (phases_.ended()) return;
  if (code == ExitCode::kDrained) {
    effects_.Info(reason);
  } else {
    effects_.Error(reason);
  }
  summary_writer_.Say(Report(View(), now_ms_).SummaryText(status, reason, code), generation_);
  Leave(code, reason);
}

// Tells everybody to leave, and exits. The ps stay if only this coordinator leaves.
void CoordinatorCore::Leave(ExitCode code, const std::string& reason, bool alone) {
  if (phases_.ended()) return;
  SetPhase(Phase::kEnded);
  end_.Decide(code, reason, alone, now_ms_);
  if (end_.alone()) return sessions_.TellNobody();
  sessions_.TellAll(end_.exit());
  for (uint32_t i = 0; i < ps_.size(); ++i)
    ps_.Finish(i, code, end_.exit().reason);  // other ps are told in later steps
  ps_.FinishInvited(code, end_.exit().reason);
}

void CoordinatorCore::Handle(const DrainEvent& event) {
  if (end_.planned() || phases_.ended()) return;
  if (!Living()) return EndJob(ExitCode::kDrained, "stopped", event.signal + " before training");
  effects_.Info(event.signal + ": taking a checkpoint, then leaving");
  // Whoever stops the tasks of a job by signals stops the workers first: missing workers alone are
  // not the cause.
  const bool kept = !ps_.AllAre(PsState::kReady) || !refusals_.last().empty();
  EndAfterCheckpoint(
      {ExitCode::kDrained, "stopped", event.signal, kept ? Waiting(View(), now_ms_) : ""});
}

// Fails the job, with a checkpoint if the ps are well: with a different `failures` policy the job
// can go on from there.
void CoordinatorCore::FailJob(ExitCode code, const std::string& reason) {
  if (end_.planned() || phases_.ended()) return;
  if (!ps_.AllAre(PsState::kReady)) return EndJob(code, "failed", reason);
  effects_.Error(absl::StrCat(reason, ": taking a checkpoint, then leaving"));
  EndAfterCheckpoint({code, "failed", reason});
}

void CoordinatorCore::EndAfterCheckpoint(Ending ending) {
  end_.Plan(std::move(ending), now_ms_ + job_.timeouts.drain_ms);
  rounds_.MayBegin(now_ms_);
}

}  // namespace paracord
