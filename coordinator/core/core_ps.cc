// Watching and adopting the ps, and telling them of the end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "coordinator/core/core.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kDescribeMs = 1000;  // deadline of one look at a ps that is away
constexpr int64_t kRetryMs = 100;      // between looks
constexpr int64_t kStrangerMs = 1000;  // where somebody else was found
constexpr int64_t kHoldMs = int64_t{24} * 3600 * 1000;
// Who takes connections and says nothing is another trouble than who refuses them.
std::string NoAnswer(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) ? "it hangs, or cannot be reached: " + Text(status)
                                          : Text(status);
}

constexpr int64_t kLookMs = 5000;  // between looks for a newer coordinator while a ps is away

}  // namespace

Fence CoordinatorCore::FenceFor(const Ps& ps) const {
  Fence fence;
  fence.set_run_id(state_.run_id);
  fence.set_generation(generation_.claimed());
  fence.set_boot_id(ps.description.boot_id());
  fence.set_protocol(kProtocol);
  return fence;
}

DescribeRequest CoordinatorCore::Look() const {
  DescribeRequest look;
  look.set_run_id(state_.run_id);
  return look;
}

void CoordinatorCore::SendPs(uint32_t index, uint64_t& tag, int64_t deadline_ms,
                             PsRequest request) {
  tag = ++last_tag_;
  const bool anew = std::exchange(ps_[index].stranger, false);
  Emit(CallPs{index, tag, deadline_ms, std::move(request), anew});
}

// All ps were ready once, or one holds what a coordinator before this one has trained: it is worth
// waiting for the others, and the start-up deadline does not apply.
bool CoordinatorCore::Living() const {
  return formed_ms_.has_value() ||
         (!state_.run_id.empty() && std::any_of(ps_.begin(), ps_.end(), [&](const Ps& ps) {
           return ps.stage != PsStage::kAway && ps.description.run_id() == state_.run_id &&
                  ps.description.partitions_size() > 0;
         }));
}

bool CoordinatorCore::AllPs(PsStage stage) const {
  return std::all_of(ps_.begin(), ps_.end(), [&](const Ps& ps) { return ps.stage == stage; });
}

bool CoordinatorCore::AnyPs(PsStage stage) const {
  return std::any_of(ps_.begin(), ps_.end(), [&](const Ps& ps) { return ps.stage == stage; });
}

void CoordinatorCore::ClaimNextGeneration(const std::string& why) {
  if (generation_.claiming()) return;
  const uint64_t claimed = generation_.BeginClaim();
  EndAllSessions(why);
  evaluations_.Cancel();
  table_.reset();
  reading_ledgers_ = false;
  if (rounds_.Collecting() && !MUTANT("old_round_is_kept")) {
    FailRound("a new generation began");
  }
  if (phase_ != Phase::kForming) SetPhase(Phase::kLoading);
  Emit(ClaimGeneration{claimed});
}

// Looks for ps that are away, and at those that are there.
void CoordinatorCore::DrivePs() {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    if (ps.stage == PsStage::kAway && ps.call_tag == 0 && now_ms_ >= ps.retry_at_ms) {
      SendPs(i, ps.call_tag, kDescribeMs, Look());
    }
    if (MUTANT("loading_is_not_watched") && ps.stage != PsStage::kReady) continue;
    if (ps.stage == PsStage::kAway) continue;
    if (ps.hold_tag == 0 && ps.stage == PsStage::kReady) {
      PsHoldRequest hold;
      *hold.mutable_fence() = FenceFor(ps);
      hold.set_coordinator_boot_id(options_.boot_id);
      SendPs(i, ps.hold_tag, kHoldMs, hold);
    }
    if (ps.ping_tag == 0 && now_ms_ >= ps.ping_at_ms) {
      SendPs(i, ps.ping_tag, job_.timeouts.ps_ms, Look());
    }
  }
  // Perhaps they are away because they obey somebody else, or have left with a job that is done.
  if (AnyPs(PsStage::kAway) && now_ms_ >= look_at_ms_) {
    look_at_ms_ = now_ms_ + kLookMs;
    Emit(FindNewestGeneration());
  }
  if (!Living()) return;  // the start-up deadline holds until then
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].stage != PsStage::kAway) continue;
    if (now_ms_ - ps_[i].away_since_ms > job_.timeouts.ps_return_s * 1000) {
      return EndJob(ExitCode::kPeerLost, "failed",
                    absl::StrCat("ps:", i, " did not come back within timeouts.ps_return_s = ",
                                 job_.timeouts.ps_return_s, " s: ", ps_[i].problem));
    }
  }
}

// Brings all ps from "seen" to "ready" in one generation.
void CoordinatorCore::DriveFormation() {
  if (phase_ == Phase::kEnded || generation_.claiming() || AnyPs(PsStage::kAway)) return;
  if (generation_.wanted()) {
    if (generation_.MayClaim(now_ms_)) ClaimNextGeneration("a batch is rejected");
    return;
  }
  // The mutant takes both guards: with a generation for each life, no boot id decides anything.
  if (AnyPs(PsStage::kSeen) && generation_.used() && !MUTANT("boot_id_not_checked")) {
    if (generation_.MayClaim(now_ms_)) ClaimNextGeneration("a ps came back");
    return;
  }
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    if (ps.stage == PsStage::kSeen && ps.call_tag == 0 && now_ms_ >= ps.retry_at_ms) {
      AdoptPs(i);
    }
  }
  if (AnyPs(PsStage::kSeen) || AllPs(PsStage::kReady) || !job_fixed_) return;
  SetPhase(Phase::kLoading);
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_[i];
    if (ps.stage == PsStage::kAdopted && ps.call_tag == 0 && now_ms_ >= ps.retry_at_ms) {
      LoadOrAttach(i);
    }
  }
}

void CoordinatorCore::AdoptPs(uint32_t index) {
  Ps& ps = ps_[index];
  AdoptRequest adopt;
  adopt.set_boot_id(ps.description.boot_id());
  adopt.set_generation(generation_.claimed());
  adopt.set_coordinator_boot_id(options_.boot_id);
  adopt.set_protocol(kProtocol);
  SendPs(index, ps.call_tag, job_.timeouts.ps_ms, adopt);
}

void CoordinatorCore::Handle(const PsAnswerEvent& event) {
  Ps& ps = ps_[event.ps];
  if (event.tag == 0) return;
  if (event.reply.ok()) ps.heard_ms = now_ms_;
  if (event.tag == ps.call_tag) {
    ps.call_tag = 0;
    if (phase_ == Phase::kEnded) return OnTold(event.ps, event.reply);
    switch (ps.stage) {
      case PsStage::kAway:
        return OnDescribed(event.ps, event.reply);
      case PsStage::kSeen:
        return OnAdopted(event.ps, event.reply);
      case PsStage::kAdopted:
        return OnLoaded(event.ps, event.reply);
      case PsStage::kReady:
        return;  // the answer to Finish
    }
  }
  if (phase_ == Phase::kEnded) return;
  if (event.tag == ps.hold_tag) return OnHoldAnswer(event.ps, event.reply);
  if (event.tag == ps.ping_tag) return OnPinged(event.ps, event.reply);
  if (event.tag == ps.ledger_tag) return OnLedgers(event.ps, event.reply);
  if (event.tag == ps.snapshot_tag) return OnSnapshot(event.ps, event.reply);
}

void CoordinatorCore::OnDescribed(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.retry_at_ms = now_ms_ + kRetryMs;
  if (!reply.ok()) {
    ps.problem = NoAnswer(reply.status());
    return;
  }
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.protocol() != kProtocol) {
    return EndJob(ExitCode::kVersion, "failed",
                  absl::StrCat("ps:", index, " speaks protocol ", description.protocol(),
                               ", this coordinator ", kProtocol));
  }
  if (!description.run_id().empty() && description.run_id() != state_.run_id) {
    return OnStranger(index,
                      absl::StrCat("it holds run ", description.run_id(), ", not this job's ",
                                   state_.run_id, ": stop that job or use another address"));
  }
  if (description.generation() + 1 >= kGenerationMax) {
    return OnStranger(index, absl::StrCat("it obeys generation ", description.generation(),
                                          ", which no coordinator claims: restart it"));
  }
  if (description.has_ps() && description.ps() != index) {
    OnStranger(index, absl::StrCat("it is ps:", description.ps(), ", not ps:", index));
    if (formed_ms_.has_value()) return;  // the right one may come
    return EndJob(ExitCode::kConfiguration, "failed",
                  absl::StrCat("at ", ps.address, " is ps:", description.ps(), ", not ps:", index,
                               ": cluster.ps (or --ps) has to name each ps under the index of its "
                               "task"));
  }
  const bool obeys_other = description.generation() == generation_.newest() &&
                           description.coordinator_boot_id() != options_.boot_id;
  if (description.generation() > generation_.newest() || obeys_other) {
    ps.problem = absl::StrCat("it obeys generation ", description.generation(), " of coordinator ",
                              description.coordinator_boot_id());
    if (formed_ms_.has_value()) {
      return Leave(ExitCode::kFenced, absl::StrCat("ps:", index, ": ", ps.problem));
    }
    // Of a newer coordinator, unless somebody has removed the claims.
    return Emit(FindNewestGeneration{description.generation()});
  }
  if (description.draining()) {
    ps.problem = "it is draining";
    return;
  }
  ps.description = description;
  ps.problem.clear();
  const bool same_life = description.boot_id() == ps.served_boot_id &&
                         description.generation() == generation_.claimed() &&
                         HoldsItsPartitions(index);
  if (same_life && generation_.used() && !generation_.claiming()) {
    PROBE("coordinator.ps.same_life");
    Info(absl::StrCat("ps:", index, " is reachable again"));
    return PsReady(index);
  }
  if (!ps.served_boot_id.empty() && description.boot_id() != ps.served_boot_id) {
    ++state_.counters.ps_recoveries;
    ps.served_boot_id.clear();
  }
  ps.stage = PsStage::kSeen;
  ps.retry_at_ms = now_ms_;
  ps.ping_at_ms = now_ms_ + PingMs();  // another may stay away for an hour
}

// The right one may be elsewhere by now, where only a new connection finds it.
void CoordinatorCore::OnStranger(uint32_t index, const std::string& problem) {
  ps_[index].problem = problem;
  ps_[index].stranger = true;
  ps_[index].retry_at_ms = now_ms_ + kStrangerMs;
}

void CoordinatorCore::OnAdopted(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  if (!reply.ok()) {
    ps.retry_at_ms = now_ms_ + kRetryMs;
    return PsLost(index, Text(reply.status()));  // looks again: it may be a new life, or fenced
  }
  ps.description = std::get<PsDescription>(*reply);
  ps.stage = PsStage::kAdopted;
  ps.ping_at_ms = now_ms_ + PingMs();  // a load may take an hour, and never end
}

void CoordinatorCore::PsReady(uint32_t index) {
  Ps& ps = ps_[index];
  ps.stage = PsStage::kReady;
  ps.served_boot_id = ps.description.boot_id();
  ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = ps.snapshot_tag = 0;
  ps.ping_at_ms = now_ms_ + PingMs();
  ps.problem.clear();
  ps.unread_since_ms.reset();
  ps.draining = ps.finished = false;
  if (!AllPs(PsStage::kReady)) return;
  generation_.Use();
  ReadLedgers();
}

void CoordinatorCore::PsLost(uint32_t index, const std::string& why) {
  Ps& ps = ps_[index];
  if (ps.stage == PsStage::kAway) return;
  ps.stage = PsStage::kAway;
  ps.away_since_ms = now_ms_;
  ps.problem = why;
  ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = 0;
  reading_ledgers_ = false;
  failures_.LedgersLost();
  Warn(absl::StrCat("ps:", index, " is away: ", why));
  if (rounds_.Collecting()) FailRound(absl::StrCat("ps:", index, " is away"));
}

void CoordinatorCore::OnHoldAnswer(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.hold_tag = 0;
  if (!reply.ok()) {
    if (absl::IsDeadlineExceeded(reply.status())) return;  // parked again by the next step
    return PsLost(index, Text(reply.status()));
  }
  if (std::get<PsHoldReply>(*reply).draining() && !ps.draining) {
    Info(absl::StrCat("ps:", index, " is draining: taking a checkpoint for it"));
    ps.draining = true;
    ps.hold_tag = ++last_tag_;  // no further hold: it will leave
    rounds_.MayBegin(now_ms_);
  }
}

void CoordinatorCore::OnPinged(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.ping_tag = 0;
  ps.ping_at_ms = now_ms_ + PingMs();
  if (!reply.ok()) return PsLost(index, NoAnswer(reply.status()));
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.boot_id() != ps.description.boot_id()) return PsLost(index, "it was restarted");
  if (ps.stage == PsStage::kSeen) return;  // whom it obeys is seen when it is to be adopted
  if (description.generation() > generation_.claimed()) {
    return Leave(ExitCode::kFenced, absl::StrCat("ps:", index, " obeys generation ",
                                                 description.generation(), ", newer than ours"));
  }
  if (ps.stage == PsStage::kReady) ps.description = description;
}

void CoordinatorCore::ReadLedgers() {
  if (!AllPs(PsStage::kReady) || reading_ledgers_) return;
  reading_ledgers_ = true;
  reread_ = false;
  failures_.LedgersAsked();
  ledgers_read_ms_ = now_ms_;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    DescribeRequest describe = Look();
    describe.set_ledgers(true);
    ps_[i].ledgers.clear();
    ps_[i].ping_tag = 0;  // its answer would be older than this one's
    ps_[i].ping_at_ms = now_ms_ + PingMs();
    SendPs(i, ps_[i].ledger_tag, job_.timeouts.ps_ms, describe);
  }
}

void CoordinatorCore::OnLedgers(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.ledger_tag = 0;
  if (!reply.ok()) return PsLost(index, Text(reply.status()));
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.boot_id() != ps.served_boot_id ||
      description.generation() != generation_.claimed()) {
    return PsLost(index, "it was restarted or obeys another coordinator");
  }
  ps.description = description;
  ps.ledgers.assign(description.partitions().begin(), description.partitions().end());
  // Of thousands of partitions and workers the intervals are most of a coordinator's memory.
  for (PartitionDescription& partition : *ps.description.mutable_partitions()) {
    if (!partition.has_ledger()) continue;
    partition.mutable_ledger()->clear_finished();
    partition.mutable_ledger()->clear_open();
  }
  const bool all =
      std::all_of(ps_.begin(), ps_.end(), [](const Ps& p) { return p.ledger_tag == 0; });
  if (!all || !reading_ledgers_) return;
  reading_ledgers_ = false;
  AdvanceEpoch();
  for (Ps& p : ps_) p.ledgers = {};  // they get old
}

void CoordinatorCore::FinishPs(uint32_t index, ExitCode code, const std::string& reason) {
  Ps& ps = ps_[index];
  if (ps.stage == PsStage::kAway || ps.stage == PsStage::kSeen) return;
  FinishRequest finish;
  *finish.mutable_fence() = FenceFor(ps);
  finish.set_coordinator_boot_id(options_.boot_id);
  finish.set_exit_code(static_cast<int>(code));
  finish.set_reason(reason);
  ps.finished = true;
  SendPs(index, ps.call_tag, kDescribeMs, finish);
}

// After the end: a ps obeys only who has adopted it, so one that was not adopted yet is looked at
// and adopted first, and told then. It is loaded with nothing, so its generation may be a used one.
void CoordinatorCore::TellPs() {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    if (ps.finished || ps.call_tag != 0 || now_ms_ < ps.retry_at_ms) continue;
    if (ps.stage == PsStage::kAway) {
      SendPs(i, ps.call_tag, kDescribeMs, Look());
    } else if (ps.stage == PsStage::kSeen) {
      AdoptPs(i);
    } else {
      FinishPs(i, static_cast<ExitCode>(exit_->code), exit_->reason);
    }
  }
}

void CoordinatorCore::OnTold(uint32_t index, const absl::StatusOr<PsReply>& reply) {
  Ps& ps = ps_[index];
  ps.retry_at_ms = now_ms_ + kRetryMs;
  if (!reply.ok()) {
    ps.stage = PsStage::kAway;
    ps.finished = false;
    return;
  }
  if (ps.finished) return;
  const PsDescription& description = std::get<PsDescription>(*reply);
  const bool ours = description.run_id().empty() || description.run_id() == state_.run_id;
  if (!ours || description.protocol() != kProtocol ||
      description.generation() > generation_.claimed()) {
    ps.stage = PsStage::kAway;  // not ours to tell
    return;
  }
  ps.description = description;
  ps.stage = ps.stage == PsStage::kAway ? PsStage::kSeen : PsStage::kAdopted;
  ps.retry_at_ms = now_ms_;
}

std::string CoordinatorCore::MissingTasks() const {
  std::vector<std::string> missing;
  for (size_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].stage != PsStage::kAway) continue;
    missing.push_back(absl::StrCat("ps:", i, " at ", ps_[i].address, " (",
                                   ps_[i].problem.empty() ? "no answer yet" : ps_[i].problem, ")"));
  }
  if (!job_fixed_ || sessions_.empty()) {
    missing.push_back(absl::StrCat(
        "a worker (", boot_of_.empty() ? "none has joined" : "none is left",
        last_refusal_.empty() ? "" : absl::StrCat("; the last to come: ", last_refusal_), ")"));
  }
  return absl::StrCat("missing ", absl::StrJoin(missing, ", "));
}

}  // namespace paracord
