#include "coordinator/core/ps_tracker.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "coordinator/core/limits.h"
#include "proto/protocol.h"
#include "storage/claim.h"

namespace paracord {
namespace {

constexpr int64_t kDescribeMs = 1000;       // deadline of one call to a ps that is away
constexpr int64_t kLoadNothingMs = 10'000;  // deadline of an invited ps's Load of nothing
constexpr int64_t kHoldMs = int64_t{24} * 3600 * 1000;
constexpr int64_t kLookMs = 5000;      // between looks for a newer coordinator while a ps is away
constexpr int64_t kLookAgainMs = 100;  // between calls to a ps that does not answer, after the end

}  // namespace

PsTracker::PsTracker(const CoreOptions& options, const Generation& generation, Effects& effects,
                     int64_t now_ms)
    : options_(options), generation_(generation), effects_(effects) {
  SetPs(options.ps_addresses, now_ms);
}

void PsTracker::SetPs(const std::vector<std::string>& addresses, int64_t now_ms) {
  invited_.clear();
  places_.clear();
  files_.clear();
  ps_.resize(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (ps_[i].address == addresses[i]) continue;
    ps_[i] = Ps();
    ps_[i].address = addresses[i];
    ps_[i].away_since_ms = now_ms;
  }
}

void PsTracker::Invite(const std::vector<std::string>& addresses) {
  invited_.clear();
  for (Ps& ps : ps_) {
    ps.no_room.clear();
    ps.unread_since_ms.reset();
  }
  for (const std::string& address : addresses) {
    Ps ps;
    ps.address = address;
    invited_.push_back(std::move(ps));
  }
}

Fence PsTracker::FenceFor(const Ps& ps) const {
  Fence fence;
  fence.set_run_id(run_id_);
  fence.set_generation(generation_.claimed());
  fence.set_boot_id(ps.description.boot_id());
  fence.set_protocol(kProtocol);
  return fence;
}

bool PsTracker::IsOurs(const PsDescription& description) const {
  const std::string& held = description.run_id();
  return held.empty() || held == run_id_ || held == taken_run_id_;
}

DescribeRequest PsTracker::Look() const {
  DescribeRequest look;
  look.set_run_id(run_id_);
  return look;
}

void PsTracker::Send(uint32_t index, uint64_t& tag, int64_t deadline_ms, PsRequest request) {
  tag = ++last_tag_;
  Ps& ps = Mine(index);
  const bool dial = std::exchange(ps.dial, false);
  effects_.Emit(CallPs{index, tag, deadline_ms, std::move(request), dial ? ps.address : ""});
}

bool PsTracker::AllAre(PsState state) const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Needed(i) && ps_[i].state != state) return false;
  }
  return true;
}

bool PsTracker::AnyIs(PsState state) const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Needed(i) && ps_[i].state == state) return true;
  }
  return false;
}

bool PsTracker::AnyDrains() const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Needed(i) && ps_[i].draining) return true;
  }
  return false;
}

bool PsTracker::AnyEntered() const {
  for (const Ps* ps : Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      if (partition.ledger().applied() + partition.ledger().rejected() > 0) return true;
    }
  }
  return false;
}

bool PsTracker::AnyHoldsRun() const {
  return !run_id_.empty() && std::ranges::any_of(ps_, [&](const Ps& ps) {
    return ps.state != PsState::kAway && ps.description.run_id() == run_id_ &&
           ps.description.partitions_size() > 0;
  });
}

std::vector<uint32_t> PsTracker::Idle(PsState state, int64_t now_ms, bool needed) const {
  std::vector<uint32_t> idle;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_[i];
    if (Needed(i) != needed) continue;
    if (ps.state == state && ps.call_tag == 0 && now_ms >= ps.retry_at_ms) idle.push_back(i);
  }
  return idle;
}

std::optional<std::string> PsTracker::Drive(int64_t now_ms, bool formed) {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    if (ps.state == PsState::kAway && ps.call_tag == 0 && now_ms >= ps.retry_at_ms) {
      Send(i, ps.call_tag, kDescribeMs, Look());
    }
    if (ps.state == PsState::kAway) continue;
    if (ps.hold_tag == 0 && ps.state == PsState::kReady) {
      PsHoldRequest hold;
      *hold.mutable_fence() = FenceFor(ps);
      hold.set_coordinator_boot_id(options_.boot_id);
      Send(i, ps.hold_tag, kHoldMs, hold);
    }
    if (ps.ping_tag == 0 && now_ms >= ps.ping_at_ms) {
      Send(i, ps.ping_tag, options_.job.timeouts.ps_ms, Look());
    }
  }
  for (uint32_t i = 0; i < invited_.size(); ++i) {
    Ps& ps = invited_[i];
    if (ps.call_tag != 0 || ps.prepare_tag != 0 || now_ms < ps.retry_at_ms) continue;
    if (ps.state == PsState::kSeen && !generation_.claiming()) {
      Adopt(size() + i);
    } else if (ps.state != PsState::kAdopted || IsIn(ps)) {
      Send(size() + i, ps.call_tag, kDescribeMs, IsIn(ps) ? Look() : DescribeRequest());
    }
  }
  // Missing ps may obey another coordinator, or have left with a finished job.
  if (AnyIs(PsState::kAway) && now_ms >= look_at_ms_) {
    look_at_ms_ = now_ms + kLookMs;
    effects_.Emit(FindNewestGeneration());
  }
  if (!formed && !AnyHoldsRun()) return std::nullopt;  // until then the start-up deadline holds
  const int64_t return_s = options_.job.timeouts.ps_return_s;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].state != PsState::kAway || !Needed(i)) continue;
    if (now_ms - ps_[i].away_since_ms > return_s * 1000) {
      return absl::StrCat("ps:", i, " did not come back within timeouts.ps_return_s = ", return_s,
                          " s: ", ps_[i].problem);
    }
  }
  return std::nullopt;
}

void PsTracker::SendAway() {
  FinishInvited(ExitCode::kDrained, "the job goes on without this ps");
  invited_.clear();
}

void PsTracker::FinishInvited(ExitCode code, const std::string& reason) {
  for (uint32_t i = 0; i < invited_.size(); ++i) Finish(size() + i, code, reason);
}

void PsTracker::AskAll(int64_t now_ms) {
  ask_all_tag_ = last_tag_;
  // The answer to an earlier call may be older than AskAll.
  for (Ps& ps : ps_) {
    ps.ping_tag = 0;
    ps.ping_at_ms = now_ms;
  }
  for (Ps& ps : invited_) {
    if (!IsIn(ps)) continue;
    ps.call_tag = 0;
    ps.retry_at_ms = now_ms;
  }
}

void PsTracker::Prepare(uint32_t index, LoadRequest prepare) {
  Ps& ps = Mine(index);
  *prepare.mutable_fence() = FenceFor(ps);
  prepare.set_coordinator_boot_id(options_.boot_id);
  prepare.set_prepare(true);
  ps.prepare_from = prepare.checkpoint();
  const std::vector<uint32_t> before = std::exchange(ps.prepare_ids, {});
  for (const PartitionSpec& partition : prepare.partitions()) {
    ps.prepare_ids.push_back(partition.id());
  }
  if (ps.prepare_ids != before) ps.description.clear_prepared();  // dropped by the ps
  Send(index, ps.prepare_tag, kAllOfPsMs, std::move(prepare));
}

std::vector<uint32_t> PsTracker::InvitedToLoad(int64_t now_ms) const {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < invited_.size(); ++i) {
    const Ps& ps = invited_[i];
    const bool idle = ps.call_tag == 0 && now_ms >= ps.retry_at_ms;
    if (idle && ps.state == PsState::kAdopted && !IsIn(ps)) indices.push_back(size() + i);
  }
  return indices;
}

std::vector<std::string> PsTracker::CheckpointsInUse() const {
  std::vector<std::string> names;
  for (const std::vector<Ps>* all : {&ps_, &invited_}) {
    for (const Ps& ps : *all) {
      if (ps.prepare_tag != 0) names.push_back(ps.prepare_from);
    }
  }
  return names;
}

void PsTracker::Adopt(uint32_t index) {
  Ps& ps = Mine(index);
  AdoptRequest adopt;
  adopt.set_boot_id(ps.description.boot_id());
  adopt.set_generation(generation_.claimed());
  adopt.set_coordinator_boot_id(options_.boot_id);
  adopt.set_protocol(kProtocol);
  adopt.set_proof_key(options_.proof_key);
  Send(index, ps.call_tag, options_.job.timeouts.ps_ms, adopt);
}

void PsTracker::Load(uint32_t index, LoadRequest load) {
  Ps& ps = Mine(index);
  if (index < size() && ps.loading_from != load.checkpoint()) ps.unread_since_ms.reset();
  ps.loading_from = load.checkpoint();
  *load.mutable_fence() = FenceFor(ps);
  load.set_coordinator_boot_id(options_.boot_id);
  load.set_claim(ClaimText(generation_.claimed(), options_.boot_id));
  for (const PartitionSpec& partition : layout_) {
    if (!IsHeldBy(partition, index)) continue;
    PartitionSpec& held = *load.add_partitions();
    held = partition;
    held.clear_copies();  // a ps need not know the other holders
  }
  if (load.keep()) {
    effects_.Info(absl::StrCat("ps:", index, " is told the job's learning rate and timeouts"));
  } else if (!ps.unread_since_ms.has_value() && index < size()) {
    effects_.Info(absl::StrCat("ps:", index, load.checkpoint().empty() ? " creates" : " restores",
                               " ", load.partitions_size(), " partitions",
                               load.checkpoint().empty() ? "" : " from " + load.checkpoint()));
  }
  Send(index, ps.call_tag, index < size() ? kAllOfPsMs : kLoadNothingMs, std::move(load));
}

void PsTracker::RetryLater(uint32_t index, int64_t now_ms) {
  ps_[index].retry_at_ms = now_ms + kRepeatMs;
}

void PsTracker::MarkReady(uint32_t index, int64_t now_ms) {
  Ps& ps = ps_[index];
  ps.state = PsState::kReady;
  ps.served_boot_id = ps.description.boot_id();
  ps.served_generation = generation_.claimed();
  ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = ps.snapshot_tag = 0;
  ps.ping_at_ms = now_ms + PingMs();
  ps.problem.clear();
  ps.unread_since_ms.reset();
  ps.draining = ps.finished = false;
}

void PsTracker::CountReplaced() {
  if (std::exchange(replaced_counted_, true)) return;
  uint32_t empty = 0;
  for (uint32_t i = 0; i < ps_.size(); ++i) empty += Needed(i) && ps_[i].found_empty ? 1 : 0;
  if (empty < needed()) recoveries_ += empty;
}

void PsTracker::BeginGeneration() {
  for (Ps& ps : ps_) {
    if (ps.state != PsState::kAway) ps.state = PsState::kSeen;
    ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = ps.prepare_tag = 0;
  }
  for (Ps& ps : invited_) {
    if (ps.state != PsState::kAway) ps.state = PsState::kSeen;
    ps.call_tag = ps.prepare_tag = 0;
    ps.retry_at_ms = 0;
  }
}

bool PsTracker::ReadLedgers(int64_t now_ms) {
  if (!AllAre(PsState::kReady) || reading_) return false;
  reading_ = true;
  reread_ = false;
  read_ms_ = now_ms;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    ps_[i].ledgers.clear();
    if (!Needed(i)) continue;
    DescribeRequest describe = Look();
    describe.set_ledgers(true);
    ps_[i].ping_tag = 0;  // its answer would be older than the ledgers
    ps_[i].ping_at_ms = now_ms + PingMs();
    Send(i, ps_[i].ledger_tag, options_.job.timeouts.ps_ms, describe);
  }
  return true;
}

bool PsTracker::LedgersDue(int64_t now_ms) const { return reread_ && now_ms - read_ms_ >= kTickMs; }

std::vector<const Ledger*> PsTracker::Ledgers() const {
  std::vector<const Ledger*> ledgers;
  for (const Ps& ps : ps_) {
    for (const PartitionDescription& partition : ps.ledgers) {
      if (partition.has_ledger()) ledgers.push_back(&partition.ledger());
    }
  }
  return ledgers;
}

void PsTracker::ForgetLedgers() {
  for (Ps& ps : ps_) ps.ledgers = {};
}

std::optional<uint32_t> PsTracker::NotFinite() const {
  for (const Ps& ps : ps_) {
    for (const PartitionDescription& partition : ps.ledgers) {
      if (!partition.healthy() && partition.id() < layout_.size()) return partition.id();
    }
  }
  return std::nullopt;
}

uint64_t PsTracker::GreatestState() const {
  uint64_t greatest = 0;
  for (const Ps* ps : Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      greatest = std::max(greatest, partition.state());
    }
  }
  return greatest;
}

void PsTracker::AskSnapshot(uint32_t index, SnapshotRequest request) {
  *request.mutable_fence() = FenceFor(ps_[index]);
  request.set_coordinator_boot_id(options_.boot_id);
  Send(index, ps_[index].snapshot_tag, kAllOfPsMs, std::move(request));
}

void PsTracker::ForgetSnapshots() {
  for (Ps& ps : ps_) ps.snapshot_tag = 0;
}

void PsTracker::SetPartitions(uint32_t index, const SnapshotReply& snapshot) {
  auto& held = *ps_[index].description.mutable_partitions();
  for (const PartitionDescription& partition : snapshot.partitions()) {
    const auto known = std::ranges::find(held, partition.id(), &PartitionDescription::id);
    (known == held.end() ? *held.Add() : *known) = partition;
  }
}

void PsTracker::Finish(uint32_t index, ExitCode code, const std::string& reason) {
  Ps& ps = Mine(index);
  if (ps.state == PsState::kAway || ps.state == PsState::kSeen) return;
  FinishRequest finish;
  *finish.mutable_fence() = FenceFor(ps);
  finish.set_coordinator_boot_id(options_.boot_id);
  finish.set_exit_code(static_cast<int>(code));
  finish.set_reason(reason);
  ps.finished = true;
  Send(index, ps.call_tag, kDescribeMs, finish);
}

void PsTracker::Tell(const Exit& exit, int64_t now_ms) {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    if (ps.finished || ps.call_tag != 0 || now_ms < ps.retry_at_ms) continue;
    if (ps.state == PsState::kAway) {
      Send(i, ps.call_tag, kDescribeMs, Look());
    } else if (ps.state == PsState::kSeen) {
      Adopt(i);
    } else {
      Finish(i, static_cast<ExitCode>(exit.code), exit.reason);
    }
  }
}

void PsTracker::OnTold(const PsAnswerEvent& event, int64_t now_ms) {
  if (event.tag == 0) return;
  if (event.ps >= ps_.size()) {
    for (Ps& ps : invited_) {
      if (ps.call_tag == event.tag) ps.call_tag = 0;
    }
    return;
  }
  Ps& ps = ps_[event.ps];
  if (event.reply.ok()) ps.heard_ms = now_ms;
  if (event.tag != ps.call_tag) return;
  ps.call_tag = 0;
  ps.retry_at_ms = now_ms + kLookAgainMs;
  if (!event.reply.ok()) {
    ps.state = PsState::kAway;
    ps.finished = false;
    return;
  }
  if (ps.finished) return;
  const PsDescription& description = std::get<PsDescription>(*event.reply);
  if (!IsOurs(description) || description.protocol() != kProtocol ||
      description.generation() > generation_.claimed()) {
    ps.state = PsState::kAway;  // it obeys another coordinator or run
    return;
  }
  ps.description = description;
  ps.state = ps.state == PsState::kAway ? PsState::kSeen : PsState::kAdopted;
  ps.retry_at_ms = now_ms;
}

bool PsTracker::AllTold(bool tell) const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_[i];
    const bool lost_guest = !Needed(i) && ps.state == PsState::kAway;
    if (ps.finished ? ps.call_tag != 0 : tell && !lost_guest) return false;
  }
  return std::ranges::none_of(invited_,
                              [](const Ps& ps) { return ps.finished && ps.call_tag != 0; });
}

void PsTracker::Forgive(int64_t stopped_ms, int64_t now_ms) {
  for (Ps& ps : ps_) {
    ps.away_since_ms += stopped_ms;
    ps.heard_ms = std::min(now_ms, ps.heard_ms + stopped_ms);
  }
}

std::vector<std::string> PsTracker::Missing() const {
  std::vector<std::string> missing;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_[i].state != PsState::kAway || !Needed(i)) continue;
    const std::string& problem = ps_[i].problem;
    const bool says_where = absl::StrContains(problem, ps_[i].address);
    missing.push_back(absl::StrCat("ps:", i, says_where ? "" : " at " + ps_[i].address, " (",
                                   problem.empty() ? "no answer yet" : problem, ")"));
  }
  return missing;
}

std::string PsTracker::OtherDirs() const {
  std::string lines;
  for (size_t i = 0; i < ps_.size(); ++i) {
    const bool other = ps_[i].state == PsState::kAdopted && !ps_[i].description.other_dir().empty();
    if (!other) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "; ", "ps:", i, " at ", ps_[i].address,
                    " has another directory: ", ps_[i].problem);
  }
  return lines;
}

std::string PsTracker::SlowReaders() const {
  std::string line;
  for (size_t i = 0; i < ps_.size(); ++i) {
    const PsDescription& description = ps_[i].description;
    if (description.waiting_exchanges() == 0) continue;
    absl::StrAppend(&line, line.empty() ? "" : "; ", description.waiting_exchanges(),
                    " exchanges wait for slow readers of ps:", i, ", which pin ",
                    description.pinned_bytes() >> 20, " MiB (its --pinned-mb)");
  }
  return line;
}

}  // namespace paracord
