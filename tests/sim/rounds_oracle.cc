#include "sim/rounds_oracle.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

// Returns how many batches of each lane, over all epochs, a ledger has.
std::map<uint64_t, uint64_t> EnteredByLane(const DataPlan& plan, const Ledger& ledger) {
  std::map<uint64_t, uint64_t> entered;
  const uint64_t lanes = SplitsPerEpoch(plan);
  for (const SplitInterval& interval : ledger.finished()) {
    for (uint64_t lane = interval.first(); lane <= interval.last(); ++lane) {
      entered[lane] = BatchesOfLane(plan, lane % lanes);
    }
  }
  for (const OpenSplit& open : ledger.open()) entered[open.split()] = open.next();
  return entered;
}

std::string ReaderOf(const ExchangeRequest& request) {
  return absl::StrCat(request.worker(), " ", request.fence().boot_id(), " ",
                      request.fence().generation());
}

}  // namespace

uint64_t BatchesOfLane(const DataPlan& plan, uint64_t lane) {
  uint64_t batches = 0;
  for (uint64_t place = lane; place < BatchesPerEpoch(plan); place += plan.lanes()) ++batches;
  return batches;
}

std::optional<uint64_t> WholeRounds(const DataPlan& plan, const Ledger& ledger) {
  const uint64_t batches = ledger.applied() + ledger.rejected();
  uint64_t state = 0, sum = 0;
  for (; sum < batches; ++state) {
    for (uint64_t lane = 0; lane < SplitsPerEpoch(plan); ++lane) {
      if (state % BatchesOfLane(plan, 0) < BatchesOfLane(plan, lane)) ++sum;
    }
  }
  return sum == batches && LaneBehind(plan, ledger, state).empty() ? std::optional(state)
                                                                   : std::nullopt;
}

std::string LaneBehind(const DataPlan& plan, const Ledger& ledger, uint64_t state) {
  const uint64_t lanes = SplitsPerEpoch(plan);
  const uint64_t rounds = BatchesOfLane(plan, 0);
  std::map<uint64_t, uint64_t> entered = EnteredByLane(plan, ledger);
  for (uint64_t round = 0; round < state; ++round) {
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      if (round % rounds >= BatchesOfLane(plan, lane)) continue;
      const uint64_t has = entered[round / rounds * lanes + lane];
      if (has > round % rounds) continue;
      return absl::StrCat("lane ", lane, " of epoch ", round / rounds, " has ", has,
                          " batches and lacks round ", round % rounds);
    }
  }
  return "";
}

void RoundsOracle::Answered(const ExchangeRequest& request,
                            const absl::StatusOr<ExchangeReply>& answer,
                            const Oracle::PsSeen& now) {
  if (plan_.lanes() == 0 || !answer.ok()) return;
  if (request.has_batch() && !request.rejected()) CheckPushed(request, *answer);
  if (request.has_state()) CheckPulled(request, *answer, now);
  if (answer->waits() || request.pull_size() == 0) return;
  Given& given = given_[ReaderOf(request)];
  given.clear();
  for (const PartitionPull& pull : request.pull()) {
    const auto seen = now.find(pull.partition());
    if (seen != now.end() && seen->second.trained) given[pull.partition()] = seen->second.ledger;
  }
}

void RoundsOracle::CheckPulled(const ExchangeRequest& request, const ExchangeReply& reply,
                               const Oracle::PsSeen& now) {
  if (reply.waits()) {
    PROBE("sim.pull.waits");
    if (reply.pieces_size() > 0) world_.Violation("an answer that says to wait brings values");
    return;
  }
  PROBE("sim.pull.ready");
  for (const PartitionPull& pull : request.pull()) {
    const auto seen = now.find(pull.partition());
    if (seen == now.end() || !seen->second.trained) continue;
    const std::string behind = LaneBehind(plan_, seen->second.ledger, request.state());
    if (behind.empty()) continue;
    return world_.Violation(absl::StrCat("values of partition ", pull.partition(),
                                         " are handed out for state ", request.state(), ", but ",
                                         behind));
  }
}

void RoundsOracle::CheckPushed(const ExchangeRequest& request, const ExchangeReply& reply) {
  const BatchId& batch = request.batch();
  const Given& given = given_[ReaderOf(request)];
  const uint64_t first = batch.epoch() * BatchesOfLane(plan_, 0);
  const uint64_t state = batch.batch() > staleness_ ? first + batch.batch() - staleness_ : first;
  for (const PartitionState& partition : reply.partitions()) {
    const auto values = given.find(partition.partition());
    if (partition.outcome() != PUSH_APPLIED || values == given.end()) continue;
    const std::string behind = LaneBehind(plan_, values->second, state);
    if (behind.empty()) continue;
    return world_.Violation(absl::StrCat("a gradient of round ", batch.batch(),
                                         " is applied to partition ", partition.partition(),
                                         " on values that are too old: ", behind));
  }
}

}  // namespace paracord
