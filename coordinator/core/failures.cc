#include "coordinator/core/failures.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/probe.h"

namespace paracord {
namespace {

constexpr int64_t kOutlivedMs = 500;      // a session heard this long after a death outlived it
constexpr int64_t kOthersFirstMs = 2000;  // other tasks try first for this long

bool Entered(const Ledger& ledger, uint64_t split, uint32_t batch) {
  const bool finished =
      std::any_of(ledger.finished().begin(), ledger.finished().end(),
                  [&](const SplitInterval& s) { return s.first() <= split && split <= s.last(); });
  return finished ||
         std::any_of(ledger.open().begin(), ledger.open().end(), [&](const OpenSplit& open) {
           return open.split() == split && open.next() > batch;
         });
}

}  // namespace

std::string NameOf(const BatchId& batch) {
  return absl::StrFormat("batch %d of split %d of epoch %d", batch.batch(), batch.split(),
                         batch.epoch() + 1);
}

Failures::Failures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected, Effects& effects)
    : effects_(effects), counts_(spec, rejected) {}

Failures::Verdict Failures::Add(const BatchId& batch, FailureKind kind, const std::string& task,
                                bool other_worker, const std::string& message) {
  last_ = absl::StrCat(NameOf(batch), " on ", task, ": ", message);
  effects_.Warn(last_);
  return counts_.Add(batch, kind, task, other_worker);
}

void Failures::NoteLoss(const std::string& task, const std::string& why) {
  last_ = absl::StrCat(task, ": ", why);
  effects_.Warn(last_);
}

void Failures::LedgersAsked() {
  asked_ = std::exchange(noted_, {});
  pending_ = counts_.Pending();
}

void Failures::LedgersLost() {
  noted_.clear();
  asked_.clear();
}

const LeaseState* Failures::WorkedOn(std::vector<LeaseState>& leases, uint64_t epoch,
                                     const std::vector<uint32_t>& next, LeaseOrder order) const {
  for (LeaseState& lease : leases) {
    const uint32_t entered = lease.split < next.size() ? next[lease.split] : 0;
    lease.next = order == LeaseOrder::kByReportedRound ? std::max(lease.next, entered) : entered;
    if (order == LeaseOrder::kAsGranted) continue;
    // Rejected batches are not computed.
    for (const uint32_t rejected : counts_.Rejected(epoch, lease.split)) {
      if (rejected == lease.next) ++lease.next;
    }
  }
  std::erase_if(leases, [](const LeaseState& lease) { return lease.next >= lease.end; });
  if (leases.empty()) return nullptr;
  if (order == LeaseOrder::kAsGranted) return &leases.front();
  return &*std::ranges::min_element(
      leases, {}, [](const LeaseState& lease) { return std::pair(lease.next, lease.split); });
}

void Failures::PlaceDeaths(uint64_t epoch, const std::vector<uint32_t>& next, int64_t now_ms,
                           LeaseOrder order) {
  for (WorkerDeath& death : std::exchange(asked_, {})) {
    const LeaseState* const at = WorkedOn(death.leases, epoch, next, order);
    if (at == nullptr) continue;  // all are entered: the death was no batch's fault
    death.batch.set_epoch(epoch);
    death.batch.set_split(at->split);
    death.batch.set_batch(at->next);
    const int64_t pause_ms = counts_.PauseAfterDeath(death.batch);
    pauses_[at->split] = {now_ms + pause_ms, death.task, now_ms + pause_ms + kOthersFirstMs};
    last_ = absl::StrCat(NameOf(death.batch), " on ", death.task, ": the worker died: ", death.why);
    effects_.Warn(absl::StrCat(last_, pause_ms == 0
                                          ? ""
                                          : absl::StrFormat("; it is computed again after %g s",
                                                            static_cast<double>(pause_ms) / 1000)));
    placed_.push_back(std::move(death));
  }
}

std::vector<Failures::Judged> Failures::JudgeDeaths(
    const std::function<std::optional<int64_t>(uint64_t session)>& heard_ms) {
  std::vector<Judged> judged;
  for (WorkerDeath& death : std::exchange(placed_, {})) {
    const auto outlived = [&](std::vector<uint64_t>& witnesses) {
      std::erase_if(witnesses, [&](uint64_t id) { return !heard_ms(id).has_value(); });
      return std::ranges::any_of(
          witnesses, [&](uint64_t id) { return *heard_ms(id) >= death.died_ms + kOutlivedMs; });
    };
    Outlived by = Outlived::kByNobody;
    if (outlived(death.busy)) {
      by = Outlived::kByBusyWorkers;
    } else if (!death.busy.empty()) {
      placed_.push_back(std::move(death));
      continue;
    } else if (outlived(death.idle)) {
      by = Outlived::kByIdleWorkers;
    } else if (!death.idle.empty()) {
      placed_.push_back(std::move(death));
      continue;
    }
    judged.push_back({counts_.AddDeath(death.batch, by), death.batch.split()});
  }
  return judged;
}

void Failures::ForgetDeaths() {
  noted_.clear();
  asked_.clear();
  placed_.clear();
  pauses_.clear();
}

void Failures::Forget() {
  ForgetBefore(std::numeric_limits<uint64_t>::max());
  ForgetDeaths();
  pending_.clear();
  last_.clear();
}

std::set<uint64_t> Failures::Withheld(uint64_t epoch, const std::string& task, bool others,
                                      int64_t now_ms) const {
  std::set<uint64_t> withheld = counts_.Withheld(epoch);
  for (const auto* deaths : {&noted_, &asked_}) {
    for (const WorkerDeath& death : *deaths) {
      for (const LeaseState& lease : death.leases) withheld.insert(lease.split);
    }
  }
  for (const auto& [split, pause] : pauses_) {
    const bool leaves_it = others && task == pause.task;
    if (now_ms < (leaves_it ? pause.others_until_ms : pause.until_ms)) withheld.insert(split);
  }
  return withheld;
}

bool Failures::Decide(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch,
                      bool by_all_or_none) {
  bool decided = false;
  for (const BatchId& batch : std::exchange(pending_, {})) {
    const uint64_t split = batch.epoch() * splits_per_epoch + batch.split();
    const auto has = [&](const Ledger* ledger) { return Entered(*ledger, split, batch.batch()); };
    const bool entered = std::ranges::any_of(ledgers, has);
    if (entered && by_all_or_none && std::ranges::all_of(ledgers, has)) {
      counts_.Forget(batch);  // no partition could reject it any more
    } else if (counts_.Decide(batch, entered, by_all_or_none)) {
      PROBE("coordinator.batch.rejected");
      decided = true;
      effects_.Warn(absl::StrCat("rejected: ", NameOf(batch),
                                 entered ? ", though some partitions have it" : "",
                                 "; the last failure: ", last_));
    } else {
      PROBE("coordinator.reject.entered");
      effects_.Warn(absl::StrCat(NameOf(batch), " is not rejected: some partition has it already"));
    }
  }
  return decided;
}

}  // namespace paracord
