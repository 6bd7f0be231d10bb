// The peers and files of a coordinator's core in tests. By default all answer at once and succeed.
// Bases of CoreHarness, which passes the core's effects to them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/job.h"
#include "coordinator/core/events.h"
#include "coordinator/core/job_state.h"

namespace paracord {

// Two ps with all that they hold.
class FakePs {
 public:
  // Returns the answer to a call; nothing if none comes.
  std::optional<Event> CarryOut(const CallPs& e, int64_t now) {
    if (!e.dial.empty()) ++dialed[e.ps];
    if (dead.contains(e.ps)) {
      if (std::holds_alternative<PsHoldRequest>(e.request)) return std::nullopt;
      return Answer(e, absl::UnavailableError("no connection"));
    }
    if (hung.contains(e.ps)) return std::nullopt;
    PsDescription& mine = ps[e.ps];
    if (const auto* look = std::get_if<DescribeRequest>(&e.request)) {
      if (look->has_run_id()) looked_ms[e.ps] = now;
    }
    if (const auto* adopt = std::get_if<AdoptRequest>(&e.request)) {
      mine.set_generation(adopt->generation());
      mine.set_coordinator_boot_id(adopt->coordinator_boot_id());
      proof_key = adopt->proof_key();
    } else if (const auto* load = std::get_if<LoadRequest>(&e.request)) {
      if (load->prepare()) return Prepare(e, *load);
      mine.clear_prepared();
      loads.push_back(*load);
      called_load[e.tag] = e.ps;
      if (silent_load) return std::nullopt;
      if (load->checkpoint() == damaged) {
        return Answer(e, absl::Status(damage, "/job/checkpoints/" + damaged + "/ps-0"));
      }
      if (!load_status.ok()) return Answer(e, load_status);
      mine.set_other_dir(e.ps == 1 ? other_dir : "");
      if (!mine.other_dir().empty()) return Answer(e, PsReply(mine));
      mine.set_run_id(load->fence().run_id());
      mine.set_settings(PsSettings(ParseJob(load->job_json()).value()));
      if (load->keep()) return Answer(e, PsReply(mine));
      std::map<uint32_t, PartitionDescription> before;
      for (const PartitionDescription& held : mine.partitions()) before[held.id()] = held;
      mine.clear_partitions();
      for (const PartitionSpec& partition : load->partitions()) {
        if (load->retain() && before.contains(partition.id())) {
          *mine.add_partitions() = before[partition.id()];
          continue;
        }
        PartitionDescription& entry = *mine.add_partitions();
        entry.set_id(partition.id());
        entry.set_healthy(true);
        entry.mutable_ledger();
      }
      if (loaded) loaded(e.ps, load->checkpoint());
    } else if (std::holds_alternative<PsHoldRequest>(e.request)) {
      hold_tags[e.ps] = e.tag;
      return std::nullopt;
    } else if (std::holds_alternative<FinishRequest>(e.request)) {
      finished.insert(e.ps);
      return Answer(e, PsReply(FinishReply()));
    } else if (const auto* snapshot = std::get_if<SnapshotRequest>(&e.request)) {
      return TakeSnapshot(e, *snapshot);
    }
    const auto* describe = std::get_if<DescribeRequest>(&e.request);
    if (hold_ledgers && describe != nullptr && describe->ledgers()) {
      held_ledgers.push_back(PsAnswerEvent{e.ps, e.tag, PsReply(mine)});
      return std::nullopt;
    }
    return Answer(e, PsReply(mine));
  }
  // Enters the whole split into all partitions, as a worker's pushes would.
  void Enter(const Lease& lease) {
    for (PsDescription& p : ps) {
      for (PartitionDescription& partition : *p.mutable_partitions()) {
        Ledger& ledger = *partition.mutable_ledger();
        const uint64_t split = lease.epoch() * 2 + lease.split();
        entered.insert(split);
        ledger.clear_finished();
        for (const uint64_t s : entered) {
          SplitInterval& interval = *ledger.add_finished();
          interval.set_first(s);
          interval.set_last(s);
        }
        ledger.set_applied(entered.size() * 2);
      }
    }
  }

  // In synchronous training: all partitions of a ps have `state` rounds of two lanes, which are
  // `rounds` an epoch. Returns the answer to an order that waited for that.
  std::optional<Event> Reach(uint32_t index, uint64_t state, uint64_t rounds) {
    for (PartitionDescription& partition : *ps[index].mutable_partitions()) {
      partition.set_state(state);
      Ledger& ledger = *partition.mutable_ledger();
      ledger.Clear();
      ledger.set_applied(state * 2);
      if (state >= rounds) {
        ledger.add_finished()->set_last(state / rounds * 2 - 1);
      }
      for (uint64_t lane = 0; lane < 2 && state % rounds > 0; ++lane) {
        OpenSplit& open = *ledger.add_open();
        open.set_split(state / rounds * 2 + lane);
        open.set_next(static_cast<uint32_t>(state % rounds));
      }
    }
    const auto waits = armed.find(index);
    if (waits == armed.end()) return std::nullopt;
    if (std::get<SnapshotRequest>(waits->second.request).cut() != state) return std::nullopt;
    const CallPs call = waits->second;
    armed.erase(waits);
    return Answer(call, PsReply(Written(std::get<SnapshotRequest>(call.request), ps[index])));
  }

  PsDescription ps[2];
  std::set<uint32_t> dead;
  std::set<uint32_t> hung;         // ps that answer nothing
  std::map<uint32_t, int> dialed;  // number of dials, keyed by ps
  std::set<uint32_t> finished;
  std::map<uint32_t, int64_t> looked_ms;  // when a ps last saw that it is not alone
  std::map<uint32_t, uint64_t> hold_tags;
  bool silent_load = false;
  bool silent_prepare = false;
  bool hold_ledgers = false;  // answers with ledgers are kept until ReleaseLedgers
  std::vector<PsAnswerEvent> held_ledgers;
  absl::Status load_status;   // the answer to a Load
  std::string other_dir;      // DIR of ps:1, if not the coordinator's
  std::string damaged = "-";  // a checkpoint that no ps can load
  absl::StatusCode damage = absl::StatusCode::kDataLoss;
  int64_t snapshot_takes_ms = 0;
  std::set<uint64_t> entered;
  std::string proof_key;                                   // known to the ps
  std::vector<LoadRequest> loads;                          // without those that prepare
  std::vector<std::pair<uint32_t, LoadRequest>> prepares;  // with the ps
  absl::Status prepare_status;                             // the answer to an order to prepare
  std::map<uint64_t, uint32_t> called_load;                // the ps of each, by tag
  // Called when a ps has loaded a checkpoint, to set the partitions' state.
  std::function<void(uint32_t ps, const std::string& checkpoint)> loaded;
  std::vector<SnapshotRequest> snapshots;  // in order
  int late_orders = 0;                     // for cuts, which come to ps:1 too late
  std::map<uint32_t, CallPs> armed;        // orders that wait for a state, keyed by ps

 private:
  std::optional<Event> Prepare(const CallPs& e, const LoadRequest& order) {
    prepares.emplace_back(e.ps, order);
    if (silent_prepare) return std::nullopt;
    if (!prepare_status.ok()) return Answer(e, prepare_status);
    ps[e.ps].set_prepared(order.checkpoint());
    return Answer(e, PsReply(ps[e.ps]));
  }
  std::optional<Event> TakeSnapshot(const CallPs& e, const SnapshotRequest& order) {
    if (e.deadline_ms < snapshot_takes_ms) {
      return Answer(e, absl::DeadlineExceededError("no answer"));
    }
    snapshots.push_back(order);
    const bool late = late_orders > 0 && e.ps == 1;
    if (late) --late_orders;
    if (order.has_cut() && (late || ps[e.ps].partitions(0).state() > order.cut())) {
      return Answer(e, absl::OutOfRangeError("it is past the cut"));
    }
    if (order.has_cut() && ps[e.ps].partitions(0).state() < order.cut()) {
      armed[e.ps] = e;
      return std::nullopt;
    }
    return Answer(e, PsReply(Written(order, ps[e.ps])));
  }
  static SnapshotReply Written(const SnapshotRequest& order, const PsDescription& held) {
    SnapshotReply reply;
    reply.set_file("ps-" + std::to_string(order.ps()));
    for (const PartitionDescription& partition : held.partitions()) {
      const bool named = std::ranges::count(order.only(), partition.id()) > 0;
      if (order.only_size() == 0 || named) *reply.add_partitions() = partition;
    }
    return reply;
  }
  static PsAnswerEvent Answer(const CallPs& e, absl::StatusOr<PsReply> reply) {
    return {e.ps, e.tag, std::move(reply)};
  }
};

// DIR as the core's effects touch it.
class FakeDir {
 public:
  // Returns the result of the effect, or nothing if the effect hangs or has no result.
  std::optional<Event> CarryOut(ClaimGeneration& e) {
    claimed = e.generation;
    if (hold_claim) return std::nullopt;
    return GenerationClaimedEvent{
        e.generation, lose_claim ? absl::AlreadyExistsError("exists") : absl::OkStatus()};
  }
  // Returns the status of a write in `generation`. Effects touch files in order.
  absl::Status Led(uint64_t generation) const {
    return generation < claimed ? absl::AbortedError("a newer one is claimed") : absl::OkStatus();
  }
  std::optional<Event> CarryOut(WriteJobState& e) {
    job_state = JobStateToText(e.state);
    if (hold_state) return std::nullopt;
    const absl::Status led = Led(e.generation);
    return JobStateWrittenEvent{led.ok() ? state_status : led};
  }
  std::optional<Event> CarryOut(MakeRoundDirectory& e) {
    return RoundDirectoryMadeEvent{e.round, round_status};
  }
  std::optional<Event> CarryOut(CommitRound& e) {
    committed.push_back(e.manifest);
    if (hold_commit) return std::nullopt;
    const absl::Status led = Led(e.generation);
    return RoundCommittedEvent{e.round, led.ok() ? commit_status : led};
  }
  std::optional<Event> CarryOut(RemoveCheckpoints& e) {
    removed.insert(removed.end(), e.directories.begin(), e.directories.end());
    return std::nullopt;
  }
  std::optional<Event> CarryOut(RemoveUncommittedRound& e) {
    uncommitted.push_back(e.manifest.name.ToString());
    return RoundGivenUpEvent{e.manifest, stands};
  }
  std::optional<Event> CarryOut(WriteSummary& e) {
    summary = e.contents;
    if (hold_summary) return std::nullopt;
    return SummaryWrittenEvent{Led(e.generation)};
  }

  bool lose_claim = false;
  bool hold_claim = false;  // a claim does not end
  uint64_t claimed = 0;     // the newest claim, ended or not
  uint64_t claimed_by_other = 0;
  bool hold_commit = false;  // a commit does not end
  bool hold_state = false;   // a write of job.state does not end
  absl::Status state_status;
  absl::Status round_status;
  absl::Status commit_status;
  absl::StatusOr<bool> stands = false;  // whether a checkpoint exists although its commit failed
  std::vector<Manifest> committed;
  std::vector<std::string> removed;
  std::vector<std::string> uncommitted;
  std::string summary;
  bool hold_summary = false;  // WriteSummary is not answered
  std::string job_state;
};

}  // namespace paracord
