// Forming the cluster: claims generations, adopts and loads the ps, and acts on their answers.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "coordinator/core/core.h"

namespace paracord {

void CoordinatorCore::ClaimNextGeneration(const std::string& why) {
  if (generation_.claiming()) return;
  const uint64_t claimed = generation_.BeginClaim();
  while (!sessions_.empty()) EndSession(sessions_.all().begin()->first, why, false);
  evaluations_.Cancel();
  training_.Close();
  ps_.StopReading();
  if (rounds_.Collecting()) FailRound("a new generation began");
  if (phases_.now() != Phase::kForming) SetPhase(Phase::kLoading);
  effects_.Emit(ClaimGeneration{claimed});
}

// Brings all ps from kSeen to kReady in one generation.
void CoordinatorCore::DriveFormation() {
  if (phases_.ended() || generation_.claiming() || copies_.writing()) return;
  const bool away = ps_.AnyIs(PsState::kAway);
  if (away && !MayFormWithoutAway()) return;
  if (!generation_.wanted().empty()) {
    if (generation_.MayClaim(now_ms_)) ClaimNextGeneration(std::string(generation_.wanted()));
    return;
  }
  if ((away || ps_.AnyIs(PsState::kSeen)) && generation_.used()) {
    if (!generation_.MayClaim(now_ms_)) return;
    return ClaimNextGeneration(away ? "a ps is lost" : "a ps came back");
  }
  for (const uint32_t index : ps_.Idle(PsState::kSeen, now_ms_)) ps_.Adopt(index);
  if (ps_.AnyIs(PsState::kSeen) || ps_.AllAre(PsState::kReady) || !record_.fixed()) return;
  SetPhase(Phase::kLoading);
  if (job_.guarantees.sync() && !DecideRollback()) return;
  for (const uint32_t index : ps_.Idle(PsState::kAdopted, now_ms_)) LoadOrAttach(index);
}

void CoordinatorCore::LoadOrAttach(uint32_t index) {
  // In synchronous training a ps keeps its partitions only if it would update them by the job's
  // settings.
  const bool stays = ps_.HoldsItsPartitions(index) && rollback_.Keeps(index);
  if (stays && ps_.all()[index].description.settings() == PsSettings(job_)) {
    ps_.MarkReady(index, now_ms_);
    return PsReady();
  }
  LoadRequest load;
  load.set_keep(stays);
  const Manifest* const usable = checkpoints_.Usable();
  if (load.keep()) {
    PROBE("coordinator.ps.settings");
  } else if (job_.guarantees.sync()) {
    // If all ps keep their partitions, only a ps without the job's partitions gets here.
    load.set_checkpoint(rollback_.from().value_or(""));
    load.set_keeps_before(ps_.size() > 1);
  } else if (usable != nullptr) {
    load.set_checkpoint(usable->name.ToString());
    // The ps keeps what it holds: the closing checkpoint contains it, and nothing was entered
    // since; or the ps takes over partitions of a lost ps in addition to its own.
    const bool same = ps_.all()[index].description.settings() == PsSettings(job_);
    load.set_retain((move_.Is(Move::Phase::kSettling) && ps_.IsLifeThatServed(index)) ||
                    (options_.HasWarmCopies() && same && ps_.HoldsSomeOfIts(index)));
  } else if (checkpoints_.Lost(record_.counters().checkpoints)) {
    // If a newer coordinator has removed the checkpoints, the answer will show it.
    ps_.RetryLater(index, now_ms_);
    return effects_.Emit(FindNewestGeneration());
  }
  load.set_job_json(record_.job_json());
  *load.mutable_plan() = record_.plan();
  for (const VariableSpec& variable : record_.variables()) *load.add_variables() = variable;
  generation_.Use();
  ps_.Load(index, std::move(load));
}

void CoordinatorCore::Handle(const PsAnswerEvent& event) {
  if (phases_.ended()) return ps_.OnTold(event, now_ms_);
  const PsNews news = ps_.OnAnswer(event, now_ms_, phases_.formed());
  const bool of_training =
      news.kind == PsNews::Kind::kReady || news.kind == PsNews::Kind::kSnapshot;
  if (of_training && !ps_.Needed(event.ps)) return;
  switch (news.kind) {
    case PsNews::Kind::kNone:
      return;
    case PsNews::Kind::kReady:
      return PsReady();
    case PsNews::Kind::kLost:
      failures_.LedgersLost();
      if (rounds_.Collecting()) FailRound(absl::StrCat("ps:", event.ps, " is away"));
      return;
    case PsNews::Kind::kDraining:
      return rounds_.MayBegin(now_ms_);
    case PsNews::Kind::kLedgers:
      AdvanceEpoch();
      StatesRead();
      return ps_.ForgetLedgers();  // later they would be out of date
    case PsNews::Kind::kSnapshot:
      return OnSnapshot(event.ps, event.reply);
    case PsNews::Kind::kUnreadable:
      checkpoints_.Refuse(news.checkpoint, news.why);
      forms_since_ms_ = now_ms_;
      // Other ps may have loaded the same checkpoint.
      if (job_.guarantees.sync()) generation_.Want("a checkpoint is refused");
      return;
    case PsNews::Kind::kSuperseded:
      return Leave(ExitCode::kFenced, news.why);
    case PsNews::Kind::kHopeless:
      return EndJob(news.code, "failed", news.why);
  }
}

void CoordinatorCore::PsReady() {
  if (!ps_.AllAre(PsState::kReady)) return;
  ps_.CountReplaced();
  rollback_.Done();
  generation_.Use();
  if (move_.closed()) return rounds_.MayBegin(now_ms_);
  if (move_.Is(Move::Phase::kSettling)) {
    if (!generation_.wanted().empty()) return;  // some ps have not loaded by the layout yet
    move_.Done(now_ms_);
    effects_.Info(move_.DoneText());
  }
  ReadLedgers();
}

void CoordinatorCore::ReadLedgers() {
  if (move_.closed()) return;  // the ledgers are read once the move is decided
  if (!ps_.ReadLedgers(now_ms_)) return;
  if (training_.table() != nullptr) training_.table()->LedgersAsked();
  failures_.LedgersAsked();
  gaps_.LedgersAsked();
}

}  // namespace paracord
