#include "sim/sync_oracle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "sim/rounds_oracle.h"

namespace paracord {

std::string SyncOracle::Difference(uint32_t partition, uint64_t state, uint64_t updates,
                                   const std::vector<float>& values) {
  const SyncReference::State& right = reference_.At(state);
  if (right.values[partition] != values) {
    const auto [is, to_be] = std::ranges::mismatch(values, right.values[partition]);
    return absl::StrCat("element ", is - values.begin(), " of partition ", partition, " is ", *is,
                        " after ", state, " rounds and not ", *to_be);
  }
  if (right.stored[partition].updates == updates) return "";
  return absl::StrCat("partition ", partition, " has ", updates, " updates after ", state,
                      " rounds and not ", right.stored[partition].updates);
}

void SyncOracle::CheckHeld(const std::string& boot_id, uint64_t generation,
                           const Oracle::PsSeen& now) {
  for (const auto& [id, partition] : now) {
    if (!partition.trained) continue;
    const std::optional<uint64_t> state = WholeRounds(plan_, partition.ledger);
    if (!state.has_value()) {
      return world_.Violation(
          absl::StrCat("the ledger of partition ", id, " has a part of a round"));
    }
    const std::string other = Difference(id, *state, partition.updates, partition.values);
    if (!other.empty()) return world_.Violation(other);
    held_[{boot_id, id}] = {generation, *state};
    for (const auto& [neighbour, held] : held_) {
      if (held.generation != generation || held.state + 1 >= *state) continue;
      return world_.Violation(absl::StrCat("partition ", id, " in ", boot_id, " is at state ",
                                           *state, " and partition ", neighbour.second, " in ",
                                           neighbour.first, " at ", held.state));
    }
  }
}

void SyncOracle::CheckPulled(uint64_t state, const StepRequest& step, const DecodedReply& reply) {
  std::map<uint32_t, std::string> bytes;  // values received, by partition
  for (const PieceView& piece : reply.pieces) {
    std::string& all = bytes[piece.partition];
    if (all.size() != piece.offset) return world_.Violation("pieces of values out of order");
    all += std::string(piece.data);
  }
  for (const Want& want : step.wants) {
    const auto& states = reply.header.partitions();
    const auto said = std::ranges::find(states, want.partition, &PartitionState::partition);
    if (said == states.end()) return world_.Violation("an answer leaves a partition out");
    const bool trained = reference_.trained(want.partition);
    const uint64_t of = trained ? state : 0;
    const uint64_t updates = reference_.At(of).stored[want.partition].updates;
    if (said->updates() != updates) {
      return world_.Violation(absl::StrCat("partition ", want.partition, " hands out ",
                                           said->updates(), " updates as state ", state, " of ",
                                           updates));
    }
    if (said->bytes() == 0 && !want.rows.has_value()) {
      if (want.state_only || want.known_version == updates) continue;
      return world_.Violation("values that are wanted are left out");
    }
    const std::vector<float> right = reference_.Pulled(of, want.partition, want.rows, wire_);
    std::vector<float> values(right.size());
    if (bytes[want.partition].size() != right.size() * ElementBytes(wire_)) {
      return world_.Violation("an answer has another number of bytes");
    }
    DecodeDense(wire_, absl::Cord(bytes[want.partition]), values);
    if (values == right) continue;
    return world_.Violation(absl::StrCat("partition ", want.partition,
                                         " hands out other values than those of state ", state));
  }
}

bool SyncOracle::CameBefore(const ExchangeRequest& header) {
  if (!header.has_batch()) return false;
  bool all = true;
  for (uint32_t i = 0; i < std::max(header.lanes(), 1u); ++i) {
    const bool first =
        came_
            .insert(absl::StrCat(header.fence().boot_id(), " ", header.fence().generation(), " ",
                                 header.batch().epoch(), " ", header.batch().split() + i, " ",
                                 header.batch().batch()))
            .second;
    all = all && !first;
  }
  return all;
}

// Called if a ps calls a batch "already applied" although nobody pushed it in this generation. Its
// ledger must have the batch, because a new generation drops the open sums of all rounds.
void SyncOracle::CheckKnown(const BatchId& batch, const ExchangeReply& reply,
                            const Oracle::PsSeen& entered) {
  const uint64_t state = batch.epoch() * BatchesOfLane(plan_, 0) + batch.batch();
  for (const PartitionState& partition : reply.partitions()) {
    if (partition.outcome() != PUSH_ALREADY_APPLIED) continue;
    if (WholeRounds(plan_, entered.at(partition.partition()).ledger) > state) continue;
    return world_.Violation(absl::StrCat("partition ", partition.partition(),
                                         " has a batch of round ", state,
                                         " in a sum of an older generation"));
  }
}

void SyncOracle::Answered(const ExchangeRequest& header, const absl::StatusOr<StepRequest>& step,
                          const absl::StatusOr<DecodedReply>& answer, bool came_before,
                          const Oracle::PsSeen& entered) {
  if (answer.ok() && header.has_batch() && !came_before) {
    CheckKnown(header.batch(), answer->header, entered);
  }
  if (absl::IsOutOfRange(answer.status())) PROBE("sim.sync.out_of_range");
  if (!answer.ok() || !step.ok() || !header.has_state()) return;
  if (answer->header.waits()) {
    PROBE("sim.sync.waits");
    return;
  }
  for (const auto& [id, partition] : entered) {
    if (!partition.trained) continue;
    if (WholeRounds(plan_, partition.ledger) > header.state()) PROBE("sim.sync.before");
  }
  CheckPulled(header.state(), *step, *answer);
}

void SyncOracle::CheckCheckpoint(const std::string& name, const std::vector<StoredTensors>& stored,
                                 const Oracle::Grown& grown) {
  std::optional<uint64_t> cut;
  for (const StoredTensors& partition : stored) {
    if (!reference_.trained(partition.id)) continue;
    const std::optional<uint64_t> state = WholeRounds(plan_, partition.ledger);
    if (!state.has_value() || cut.value_or(*state) != *state) {
      return world_.Violation(absl::StrCat(name, " holds partitions of several states"));
    }
    cut = state;
    const bool grows = grown.contains(partition.id);
    const std::string other = Difference(partition.id, *state, partition.updates,
                                         grows ? grown.at(partition.id) : partition.value);
    if (!other.empty()) return world_.Violation(absl::StrCat(name, ": ", other));
    if (!grows && partition.slots != reference_.At(*state).stored[partition.id].slots) {
      return world_.Violation(absl::StrCat(name, ": the slots of partition ", partition.id,
                                           " are not those of state ", *state));
    }
  }
  PROBE("sim.sync.cut");
}

void SyncOracle::CheckEvaluations(const nlohmann::json& summary) {
  for (const nlohmann::json& score : summary["evaluations"]) {
    const auto epoch = score.value("epoch", uint64_t{0});
    const double right = reference_.LossAt(epoch * BatchesOfLane(plan_, 0));
    const double scored = score["metrics"].value("loss", -1.0);
    if (scored == right) continue;
    return world_.Violation(
        absl::StrCat("the evaluation of epoch ", epoch, " is ", scored, " and not ", right));
  }
}

}  // namespace paracord
