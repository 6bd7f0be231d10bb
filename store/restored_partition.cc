#include "store/restored_partition.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {
namespace {

absl::Status NoSlot(const std::string& name) {
  return absl::FailedPreconditionError(
      absl::StrCat("it has no slot ", name, ", which the optimizer needs"));
}

TensorPlace PlaceOf(const Block& block) {
  TensorPlace place;
  for (const ChunkRef& chunk : block.chunks()) place.push_back(chunk.mutable_values());
  return place;
}

}  // namespace

absl::StatusOr<RestoredPartition> RestoredPartition::Make(const VariableSpec& variable,
                                                          const PartitionSpec& spec,
                                                          const PartitionMaker& maker,
                                                          MemoryReservation& memory) {
  RestoredPartition made(variable, spec, maker, memory);
  const Optimizer own = maker.OptimizerOf(variable);
  if (IsGrowing(variable)) {
    ASSIGN_OR_RETURN(made.table_.table, maker.MakeShard(variable));
  } else if (KeepsFixedRows(variable, own)) {
    made.table_.fixed = std::make_unique<FixedTable>(own, PartitionShape(variable, spec),
                                                     spec.row_begin(), variable.trainable());
    made.slots_ = made.table_.fixed->slots();
  } else if (variable.trainable()) {
    made.slots_ = own.slots;
    made.contents_.slots.resize(made.slots_.size(), Block(0));
  }
  made.slot_elements_.resize(made.slots_.size());
  return made;
}

TensorPlace RestoredPartition::PlaceOfTensor(bool delta, std::string_view slot, uint64_t elements) {
  if (table_.table != nullptr) return PlaceInTable(delta, slot, elements);
  if (delta) return PlaceOfChanged(slot, elements);
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].name != slot) continue;
    slot_elements_[s] = elements;
    if (table_.fixed != nullptr) return PlaceInColumn(s + 1, elements);
    return PlaceOf(contents_.slots[s] = Block(elements));
  }
  if (!slot.empty()) return TensorPlace();
  if (table_.fixed != nullptr) return PlaceInColumn(0, elements);
  return PlaceOf(contents_.value = Block(elements));
}

absl::Status RestoredPartition::EndLink(const StoredPartition& stored) {
  if (table_.fixed != nullptr) return FinishFixed(stored);
  return table_.table == nullptr ? absl::OkStatus() : FinishTable(stored);
}

absl::StatusOr<std::unique_ptr<Partition>> RestoredPartition::Finish(
    const StoredPartition& stored, const DataPlan& plan,
    const std::optional<CheckpointName>& restored) {
  ASSIGN_OR_RETURN(PartitionLedger ledger, PartitionLedger::FromProto(stored.ledger, plan));
  const uint64_t rows = spec_->row_end() - spec_->row_begin();
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slot_elements_[s] == 0) return NoSlot(slots_[s].name);
    const uint64_t all = PartitionElements(*variable_, *spec_);
    if (slot_elements_[s] == (slots_[s].of_rows ? rows : all)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("its slot ", slots_[s].name, " is that of another optimizer"));
  }
  if (table_.table != nullptr || table_.fixed != nullptr) {
    if (table_.fixed != nullptr && restored.has_value()) {
      ChangedRows& changes = table_.fixed->changes();
      changes.Mark(restored, {}, stored.updates, changes.NewBits());
    } else if (table_.table != nullptr) {
      table_.table->changes().Mark(restored, {}, table_.table->now(), stored.updates,
                                   table_.table->counts().rows);
    }
    table_.ledger = std::move(ledger);
    table_.updates = stored.updates;
    table_.healthy = stored.healthy;
    return maker_->Make(*variable_, *spec_, std::move(table_));
  }
  contents_.ledger = std::move(ledger);
  contents_.updates = stored.updates;
  contents_.healthy = stored.healthy;
  return maker_->Make(*variable_, *spec_, std::move(contents_));
}

TensorPlace RestoredPartition::PlaceOfChanged(std::string_view slot, uint64_t elements) {
  if (table_.fixed == nullptr || slot != kRowsSlot) return TensorPlace();
  memory_->Count(elements * sizeof(float));
  changed_.resize(elements);
  return {changed_};
}

absl::Status RestoredPartition::FinishFixed(const StoredPartition& stored) {
  if (changed_.empty() && !stored.table.has_value()) return absl::OkStatus();
  if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
  RETURN_IF_ERROR(table_.fixed->RestoreChanged(*stored.table, changed_));
  memory_->Less(changed_.size() * sizeof(float));
  changed_ = {};
  return absl::OkStatus();
}

TensorPlace RestoredPartition::PlaceInColumn(size_t index, uint64_t elements) {
  const PlacedIn<float> place = table_.fixed->PlaceOf(table_.fixed->columns()[index]);
  return place.size == elements ? TensorPlace{place} : TensorPlace();
}

TensorPlace RestoredPartition::PlaceInTable(bool delta, std::string_view slot, uint64_t elements) {
  GrowingTable& table = *table_.table;
  if (slot == kRowsSlot) {
    words_ = elements;
    if (elements % table.record_words() != 0) return TensorPlace();
    memory_->Count(elements * sizeof(float));
    if (!delta) {
      const std::vector<std::span<float>> room = table.RestoreRoom(elements / table.record_words());
      return {room.begin(), room.end()};
    }
    changed_.resize(elements);
    return {changed_};
  }
  if (slot == kRemovedSlot) {
    memory_->Count(elements / 2 * sizeof(uint64_t));
    removed_.resize(elements / 2);
    return {{reinterpret_cast<float*>(removed_.data()), removed_.size() * 2}};
  }
  const std::span<uint32_t> candidates = table.RestoreCandidates();
  candidates_ = slot == kCandidatesSlot && elements == candidates.size();
  if (!candidates_) return TensorPlace();
  return {{reinterpret_cast<float*>(candidates.data()), candidates.size()}};
}

absl::Status RestoredPartition::FinishTable(const StoredPartition& stored) {
  GrowingTable& table = *table_.table;
  if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
  const TableMetadata& was = *stored.table;
  for (const SlotSpec& slot : table.slots()) {
    if (std::ranges::find(was.slots, slot.name) == was.slots.end()) return NoSlot(slot.name);
  }
  std::vector<std::string> row_slots;
  for (const SlotSpec& slot : table.slots()) {
    if (slot.of_rows) row_slots.push_back(slot.name);
  }
  const bool same = was.steps == table.counts_steps() && was.slots.size() == table.slots().size() &&
                    was.row_slots == row_slots;
  if (!same || words_ % table.record_words() != 0) {
    return absl::FailedPreconditionError("its rows are those of another optimizer");
  }
  if (!candidates_) {
    return absl::FailedPreconditionError("its admission of ids is another one");
  }
  const GrowingTable::Counts counts{.rows = 0,
                                    .created = was.admitted,
                                    .expired = was.expired,
                                    .evicted = was.evicted,
                                    .dropped = was.dropped};
  const auto own = [&](uint64_t id) {
    return ShardOfRow(id, variable_->shape(0)) == spec_->row_begin();
  };
  if (!was.since.has_value()) return table.FinishRestore(was.now, counts, own);
  RETURN_IF_ERROR(table.RestoreChanges(was.now, counts, removed_, changed_, own));
  memory_->Less(changed_.size() * sizeof(float) + removed_.size() * sizeof(uint64_t));
  changed_ = {};
  removed_ = {};
  if (table.counts().rows == was.rows) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("it has ", table.counts().rows,
                                          " rows after the changes, and should have ", was.rows));
}

}  // namespace paracord
