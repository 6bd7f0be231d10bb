#include "store/partition_maker.h"

#include <utility>

#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/partitions.h"

namespace paracord {
namespace {

Partition::Facts FactsOf(const VariableSpec& variable, const PartitionSpec& spec, uint64_t bytes) {
  return {.id = spec.id(),
          .name = spec.name(),
          .shape = PartitionShape(variable, spec),
          .trained = variable.trainable(),
          .bytes = bytes,
          .row_begin = spec.row_begin(),
          .variable = spec.variable()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrowingTable>> PartitionMaker::MakeShard(
    const VariableSpec& variable) const {
  return MakeTableOfShard(variable, content_.optimizer, seed_,
                          content_.sync ? SplitsPerEpoch(content_.plan) : 1);
}

absl::StatusOr<std::optional<RoundsOptions>> PartitionMaker::RoundsOf(
    const VariableSpec& variable, const PartitionSpec& spec, const PartitionLedger& ledger) const {
  if (!content_.sync || !variable.trainable()) return std::nullopt;
  ASSIGN_OR_RETURN(const uint64_t state, StateOf(ledger, content_.plan));
  RoundsOptions rounds{content_.plan, state, keeps_before_};
  if (content_.clip.has_value()) {
    rounds.clip = {content_.clip->clip, spec.variable(), variable.moving_average() > 0};
  }
  rounds.rows = content_.round_rows;
  return rounds;
}

absl::StatusOr<std::unique_ptr<Partition>> PartitionMaker::Make(const VariableSpec& variable,
                                                                const PartitionSpec& spec,
                                                                PartitionContents contents) const {
  ASSIGN_OR_RETURN(const std::optional<RoundsOptions> rounds,
                   RoundsOf(variable, spec, contents.ledger));
  contents.steps = StepsOf(contents.ledger);
  return std::make_unique<DensePartition>(FactsOf(variable, spec, contents.value.bytes()),
                                          OptimizerOf(variable), std::move(contents), pinned_,
                                          rounds);
}

absl::StatusOr<std::unique_ptr<Partition>> PartitionMaker::Make(const VariableSpec& variable,
                                                                const PartitionSpec& spec,
                                                                TableContents contents) const {
  ASSIGN_OR_RETURN(const std::optional<RoundsOptions> rounds,
                   RoundsOf(variable, spec, contents.ledger));
  contents.steps = StepsOf(contents.ledger);
  const uint64_t bytes =
      contents.fixed == nullptr ? 0 : PartitionElements(variable, spec) * sizeof(float);
  return std::make_unique<TablePartition>(FactsOf(variable, spec, bytes), variable.shape(0),
                                          std::move(contents), pinned_, rounds);
}

}  // namespace paracord
