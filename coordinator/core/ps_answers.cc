// The answers of parameter servers, and the news that each answer means.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/probe.h"
#include "common/status_text.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/ps_tracker.h"
#include "proto/protocol.h"
#include "storage/checkpoint.h"
#include "storage/claim.h"

namespace paracord {
namespace {

constexpr int64_t kRetryMs = 100;       // between calls to a ps that is away
constexpr int64_t kWrongPeerMs = 1000;  // after the wrong process answered
// A checkpoint that is not damaged and cannot be read is retried for this share of
// timeouts.start_s.
constexpr int64_t kPatienceShare = 4;

// A process that accepts connections and never answers is a different problem than one that refuses
// connections.
std::string NoAnswer(const absl::Status& status) {
  const bool hangs = absl::StrContains(status.message(), "no answer within");
  return hangs ? "it hangs, or cannot be reached: " + Text(status) : Text(status);
}

// Whether the call may or may not have taken effect, and may be repeated.
bool Transient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

PsNews Hopeless(ExitCode code, std::string why) {
  return {PsNews::Kind::kHopeless, std::move(why), "", code};
}

PsNews Superseded(std::string why) { return {PsNews::Kind::kSuperseded, std::move(why)}; }

}  // namespace

PsNews PsTracker::OnAnswer(const PsAnswerEvent& event, int64_t now_ms, bool formed) {
  if (event.ps >= ps_.size()) {
    OnInvited(event, now_ms);
    return {};
  }
  Ps& ps = ps_[event.ps];
  if (event.tag == 0) return {};
  if (event.reply.ok()) {
    ps.heard_ms = now_ms;
    ps.heard_tag = std::max(ps.heard_tag, event.tag);
  }
  if (event.tag == ps.call_tag) {
    ps.call_tag = 0;
    switch (ps.state) {
      case PsState::kAway:
        return OnDescribed(event.ps, event.reply, now_ms, formed);
      case PsState::kSeen:
        return OnAdopted(event.ps, event.reply, now_ms);
      case PsState::kAdopted:
        return OnLoaded(event.ps, event.reply, now_ms);
      case PsState::kReady:
        return {};  // the answer to Finish
    }
  }
  if (event.tag == ps.hold_tag) return OnHoldAnswer(event.ps, event.reply, now_ms);
  if (event.tag == ps.ping_tag) return OnPinged(event.ps, event.reply, now_ms);
  if (event.tag == ps.ledger_tag) return OnLedgers(event.ps, event.reply, now_ms);
  if (event.tag == ps.snapshot_tag) {
    ps.snapshot_tag = 0;
    return {PsNews::Kind::kSnapshot};
  }
  if (event.tag == ps.prepare_tag) OnPrepared(event, now_ms);
  return {};
}

PsNews PsTracker::OnDescribed(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms,
                              bool formed) {
  Ps& ps = ps_[index];
  ps.retry_at_ms = now_ms + kRetryMs;
  ps.unreachable = true;  // unless the answer brings it in
  if (!Needed(index)) ps.retry_at_ms = now_ms + kWrongPeerMs;
  if (!reply.ok()) {
    ps.problem = NoAnswer(reply.status());
    return {};
  }
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.protocol() != kProtocol) {
    return Hopeless(ExitCode::kVersion,
                    absl::StrCat("ps:", index, " speaks protocol ", description.protocol(),
                                 ", this coordinator ", kProtocol));
  }
  if (!IsOurs(description)) {
    OnWrongPeer(index,
                absl::StrCat("it holds run ", description.run_id(), ", not this job's ", run_id_,
                             ": stop that job or use another address"),
                now_ms);
    return {};
  }
  if (description.generation() + 1 >= kGenerationMax) {
    OnWrongPeer(index,
                absl::StrCat("it obeys generation ", description.generation(),
                             ", which no coordinator claims: restart it"),
                now_ms);
    return {};
  }
  if (description.has_ps() && description.ps() != index) {
    OnWrongPeer(index, absl::StrCat("it is ps:", description.ps(), ", not ps:", index), now_ms);
    if (formed) return {};  // the right process may come
    return Hopeless(ExitCode::kConfiguration,
                    absl::StrCat("at ", ps.address, " is ps:", description.ps(), ", not ps:", index,
                                 ": cluster.ps (or --ps) has to name each ps under the index of "
                                 "its task"));
  }
  const bool obeys_other = description.generation() == generation_.newest() &&
                           description.coordinator_boot_id() != options_.boot_id;
  if (description.generation() > generation_.newest() || obeys_other) {
    ps.problem = absl::StrCat("it obeys generation ", description.generation(), " of coordinator ",
                              description.coordinator_boot_id());
    if (formed) return Superseded(absl::StrCat("ps:", index, ": ", ps.problem));
    // A newer coordinator has claimed this generation, unless a person has removed the claims.
    effects_.Emit(FindNewestGeneration{description.generation()});
    return {};
  }
  if (description.draining()) {
    ps.problem = "it is draining";
    return {};
  }
  return TakeDescription(index, description, now_ms);
}

// Says why this process can never come in; empty: it may.
std::string PsTracker::WhyNeverInvited(const PsDescription& description, uint32_t index) const {
  if (description.protocol() != kProtocol) {
    return absl::StrCat("it speaks protocol ", description.protocol(), ", this coordinator ",
                        kProtocol);
  }
  if (description.has_ps() && description.ps() != index) {
    return absl::StrCat("it is ps:", description.ps(), ", not ps:", index);
  }
  if (description.run_id().empty() || description.run_id() == run_id_) return "";
  return absl::StrCat("it holds run ", description.run_id(), ", not this job's ", run_id_,
                      ": use another ps, or restart it");
}

// Says why an invited ps may not come in yet; empty: it may.
std::string PsTracker::WhyNotInvited(const PsDescription& description, uint32_t index) const {
  if (std::string never = WhyNeverInvited(description, index); !never.empty()) return never;
  if (description.partitions_size() > 0) {
    return absl::StrCat("it holds partitions of run ", description.run_id(),
                        " already: restart it");
  }
  if (description.generation() > generation_.newest()) {
    return absl::StrCat("it obeys generation ", description.generation(),
                        " of another coordinator: restart it");
  }
  return description.draining() ? "it is draining" : "";
}

// Takes the answer of a ps that a move is to bring in, or that has left the job.
void PsTracker::OnInvited(const PsAnswerEvent& event, int64_t now_ms) {
  const size_t place = event.ps - ps_.size();
  if (place >= invited_.size()) return;
  Ps& ps = invited_[place];
  if (event.tag == ps.prepare_tag) return OnPrepared(event, now_ms);
  if (event.tag != ps.call_tag) return;
  ps.call_tag = 0;
  ps.retry_at_ms = now_ms + kWrongPeerMs;
  if (!event.reply.ok()) {
    ps.problem = NoAnswer(event.reply.status());
    ps.state = PsState::kAway;
    ps.dial = true;  // another process may be there, and the ps elsewhere
    return;
  }
  ps.heard_tag = event.tag;
  const PsDescription& description = std::get<PsDescription>(*event.reply);
  const bool same_life = description.boot_id() == ps.description.boot_id();
  const bool was_in = IsIn(ps);
  ps.description = description;
  ps.problem = WhyNotInvited(description, event.ps);
  ps.no_room = WhyNeverInvited(description, event.ps);
  if (!ps.problem.empty()) {
    ps.state = PsState::kAway;
    ps.dial = true;
  } else if (description.generation() == generation_.claimed() && !generation_.claiming() &&
             description.coordinator_boot_id() == options_.boot_id) {
    if (ps.state == PsState::kSeen) ps.retry_at_ms = now_ms;
    ps.state = PsState::kAdopted;
  } else if (ps.state == PsState::kAway || !same_life) {
    ps.state = PsState::kSeen;
    ps.retry_at_ms = now_ms;
  }
  if (!description.other_dir().empty()) {
    ps.problem = OtherDirText(description);
    if (!ps.unread_since_ms.has_value()) ps.unread_since_ms = now_ms;
  } else if (!same_life || (IsIn(ps) && !was_in)) {
    ps.unread_since_ms.reset();
  }
}

// Takes the answer to an order to prepare.
void PsTracker::OnPrepared(const PsAnswerEvent& event, int64_t now_ms) {
  Ps& ps = Mine(event.ps);
  ps.prepare_tag = 0;
  ps.prepare_at_ms = now_ms + kWrongPeerMs;  // if it has not prepared what was ordered
  if (event.reply.ok()) {
    ps.description.set_prepared(std::get<PsDescription>(*event.reply).prepared());
    ps.unread_since_ms.reset();
    return;
  }
  if (absl::IsResourceExhausted(event.reply.status())) ps.no_room = Text(event.reply.status());
  if (!Transient(event.reply.status()) && !ps.unread_since_ms.has_value()) {
    ps.unread_since_ms = now_ms;
  }
  ps.problem = Text(event.reply.status());
  effects_.Warn(absl::StrCat("ps:", event.ps), "cannot prepare", Text(event.reply.status()));
  ps.description.clear_prepared();
}

PsNews PsTracker::TakeDescription(uint32_t index, const PsDescription& description,
                                  int64_t now_ms) {
  Ps& ps = ps_[index];
  if (description.boot_id() != ps.description.boot_id()) ps.no_room.clear();
  ps.description = description;
  ps.problem.clear();
  ps.unreachable = false;
  // In synchronous training partitions held before this generation may have another state.
  const bool served =
      !options_.job.guarantees.sync() || ps.served_generation == generation_.claimed();
  const bool same_life = served && description.boot_id() == ps.served_boot_id &&
                         description.generation() == generation_.claimed() &&
                         HoldsItsPartitions(index);
  if (same_life && generation_.used() && !generation_.claiming()) {
    PROBE("coordinator.ps.same_life");
    effects_.Info(absl::StrCat("ps:", index, " is reachable again"));
    MarkReady(index, now_ms);
    return {PsNews::Kind::kReady};
  }
  if (!ps.served_boot_id.empty() && description.boot_id() != ps.served_boot_id) {
    ++recoveries_;
    ps.served_boot_id.clear();
  }
  if (ps.served_boot_id.empty()) ps.found_empty = description.partitions_size() == 0;
  ps.state = PsState::kSeen;
  ps.retry_at_ms = now_ms;
  ps.ping_at_ms = now_ms + PingMs();  // other ps may stay away for an hour
  return {};
}

// The right process may be at another address by now, which only a new connection finds.
void PsTracker::OnWrongPeer(uint32_t index, const std::string& problem, int64_t now_ms) {
  ps_[index].problem = problem;
  ps_[index].dial = true;
  ps_[index].retry_at_ms = now_ms + kWrongPeerMs;
}

PsNews PsTracker::OnAdopted(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms) {
  Ps& ps = ps_[index];
  if (!reply.ok()) {
    ps.retry_at_ms = now_ms + kRetryMs;
    // It is described again: it may have restarted, or obey a newer coordinator.
    return Lose(index, Text(reply.status()), now_ms);
  }
  ps.description = std::get<PsDescription>(*reply);
  ps.state = PsState::kAdopted;
  ps.ping_at_ms = now_ms + PingMs();  // a load may take an hour, or hang
  return {};
}

PsNews PsTracker::OnLoaded(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms) {
  if (!reply.ok()) return OnLoadFailed(index, reply.status(), now_ms);
  Ps& ps = ps_[index];
  ps.description = std::get<PsDescription>(*reply);
  if (!ps.description.other_dir().empty()) return OnOtherDir(index, now_ms);
  if (!HoldsItsPartitions(index)) {
    return Lose(index, "it loaded other partitions than it was told to", now_ms);
  }
  MarkReady(index, now_ms);
  return {PsNews::Kind::kReady};
}

std::string PsTracker::OtherDirText(const PsDescription& description) const {
  return absl::StrCat("its --dir, ", description.other_dir(), ", holds no ", kGenerationPrefix,
                      generation_.claimed(), ", which was written into the coordinator's --dir, ",
                      options_.ShownDir(),
                      ": --dir has to be the same directory for all tasks, on storage that their "
                      "hosts share");
}

// Shared storage may take a moment to show a file from another host, or may be mounted soon.
PsNews PsTracker::OnOtherDir(uint32_t index, int64_t now_ms) {
  Ps& ps = ps_[index];
  PROBE("coordinator.ps.other_dir");
  const std::string problem = OtherDirText(ps.description);
  if (ps.problem != problem) {
    effects_.Warn(absl::StrCat("ps:", index), "has another directory", problem);
  }
  ps.problem = problem;
  RetryLater(index, now_ms);
  return {};
}

PsNews PsTracker::OnLoadFailed(uint32_t index, const absl::Status& status, int64_t now_ms) {
  Ps& ps = ps_[index];
  if (Transient(status) || absl::IsAborted(status) || !Needed(index)) {
    return Lose(index, Text(status), now_ms);
  }
  const bool restoring = !ps.loading_from.empty();
  const bool damaged = SaysDamaged(status);
  if (!ps.unread_since_ms.has_value()) ps.unread_since_ms = now_ms;
  const int64_t patience_ms = options_.job.timeouts.start_s * 1000 / kPatienceShare;
  const bool unreadable = now_ms - *ps.unread_since_ms >= patience_ms && !damaged;
  if (restoring && (damaged || unreadable)) {
    // If several ps load a checkpoint, the first failure strikes it out for all.
    const std::string why = absl::StrCat(
        "ps:", index, ": ", Text(status),
        unreadable
            ? absl::StrCat(", for ", static_cast<double>(patience_ms) / 1000, " s; it stays there")
            : "");
    effects_.Error(absl::StrCat("checkpoint ", ps.loading_from, " is refused: ", why,
                                "; trying the one before it"));
    PROBE("coordinator.checkpoint.unusable");
    ps.retry_at_ms = now_ms;
    return {PsNews::Kind::kUnreadable, why, ps.loading_from};
  }
  if (damaged || absl::IsInvalidArgument(status)) {
    return Hopeless(ExitCode::kConfiguration, absl::StrCat("ps:", index, ": ", Text(status)));
  }
  if (ps.problem != Text(status)) {
    effects_.Warn(absl::StrCat("ps:", index), "cannot load, and tries again", Text(status));
  }
  ps.problem = Text(status);
  RetryLater(index, now_ms);
  return {};
}

PsNews PsTracker::Lose(uint32_t index, const std::string& why, int64_t now_ms) {
  Ps& ps = ps_[index];
  if (ps.state == PsState::kAway) return {};
  ps.state = PsState::kAway;
  ps.away_since_ms = now_ms;
  ps.problem = why;
  ps.rates = {};
  ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = ps.prepare_tag = 0;
  ps.description.clear_prepared();
  ps.unreachable = false;
  effects_.Warn(absl::StrCat("ps:", index), "is away", why);
  if (!Needed(index)) return {};
  reading_ = false;
  return {PsNews::Kind::kLost, why};
}

PsNews PsTracker::OnHoldAnswer(uint32_t index, const absl::StatusOr<PsReply>& reply,
                               int64_t now_ms) {
  Ps& ps = ps_[index];
  ps.hold_tag = 0;
  if (!reply.ok()) {
    if (absl::IsDeadlineExceeded(reply.status())) return {};  // the next step parks a new call
    return Lose(index, Text(reply.status()), now_ms);
  }
  if (!std::get<PsHoldReply>(*reply).draining() || ps.draining) return {};
  if (!Needed(index)) {
    Finish(index, ExitCode::kDrained, "drained");
    return {};
  }
  effects_.Info(absl::StrCat("ps:", index, " is draining: taking a checkpoint for it"));
  ps.draining = true;  // the next hold ends when it leaves
  return {PsNews::Kind::kDraining};
}

PsNews PsTracker::OnPinged(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms) {
  Ps& ps = ps_[index];
  ps.ping_tag = 0;
  ps.ping_at_ms = now_ms + PingMs();
  if (!reply.ok()) return Lose(index, NoAnswer(reply.status()), now_ms);
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.boot_id() != ps.description.boot_id()) {
    return Lose(index, "it was restarted", now_ms);
  }
  if (ps.state == PsState::kSeen) return {};  // its generation is checked when it is adopted
  if (description.generation() > generation_.claimed()) {
    return Superseded(absl::StrCat("ps:", index, " obeys generation ", description.generation(),
                                   ", newer than ours"));
  }
  if (ps.state != PsState::kReady) return {};
  SayRefusedPeer(index, description);
  ps.description = description;
  ps.rates.Take(description, now_ms);
  return {};
}

// Logs each client that the listener of a ps has refused since the last description.
void PsTracker::SayRefusedPeer(uint32_t index, const PsDescription& description) {
  constexpr size_t kSaidMax = 300;
  const PsDescription& before = ps_[index].description;
  if (description.refused_peer().empty() || description.refused_peer() == before.refused_peer()) {
    return;
  }
  effects_.Warn(absl::StrCat("ps:", index, ": ", OneLine(description.refused_peer(), kSaidMax)));
}

PsNews PsTracker::OnLedgers(uint32_t index, const absl::StatusOr<PsReply>& reply, int64_t now_ms) {
  Ps& ps = ps_[index];
  ps.ledger_tag = 0;
  if (!reply.ok()) return Lose(index, Text(reply.status()), now_ms);
  const PsDescription& description = std::get<PsDescription>(*reply);
  if (description.boot_id() != ps.served_boot_id ||
      description.generation() != generation_.claimed()) {
    return Lose(index, "it was restarted or obeys another coordinator", now_ms);
  }
  SayRefusedPeer(index, description);
  ps.description = description;
  // With short epochs ledgers are read so often that no ping is answered.
  ps.rates.Take(description, now_ms);
  ps.ledgers.assign(description.partitions().begin(), description.partitions().end());
  // The intervals of thousands of partitions and workers would be most of a coordinator's memory.
  for (PartitionDescription& partition : *ps.description.mutable_partitions()) {
    if (!partition.has_ledger()) continue;
    partition.mutable_ledger()->clear_finished();
    partition.mutable_ledger()->clear_open();
  }
  const bool all = std::ranges::all_of(ps_, [](const Ps& other) { return other.ledger_tag == 0; });
  if (!all || !reading_) return {};
  reading_ = false;
  return {PsNews::Kind::kLedgers};
}

}  // namespace paracord
