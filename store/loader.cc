#include "store/loader.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"
#include "store/dense_partition.h"
#include "store/initial_weights.h"
#include "store/initializer.h"
#include "store/table_partition.h"

namespace paracord {
namespace {

std::vector<VariableSpec> Variables(const LoadRequest& request) {
  return {request.variables().begin(), request.variables().end()};
}

absl::Status CheckRequest(const LoadRequest& request, uint64_t partition_bytes_max) {
  RETURN_IF_ERROR(CheckDataPlan(request.plan()));
  const std::vector<VariableSpec> variables = Variables(request);
  RETURN_IF_ERROR(CheckVariables(variables));
  RETURN_IF_ERROR(CheckOwnOptimizers(variables));
  std::set<uint32_t> seen;
  for (const PartitionSpec& spec : request.partitions()) {
    RETURN_IF_ERROR(CheckPartition(variables, spec));
    if (!seen.insert(spec.id()).second) {
      return absl::InvalidArgumentError(absl::StrCat("partition ", spec.id(), " stands twice"));
    }
    const uint64_t bytes = PartitionElements(variables[spec.variable()], spec) * sizeof(float);
    if (bytes > partition_bytes_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("partition ", spec.name(), " has ", bytes, " bytes, a ps takes at most ",
                       partition_bytes_max,
                       "; use {\"partitioner\": {\"kind\": \"max_size\", "
                       "\"max_shard_bytes\": ",
                       partition_bytes_max, "}}"));
    }
  }
  return absl::OkStatus();
}

// Fills `block` with the elements of a variable from `begin` on. `weights` null, or without the
// variable: from the initializer.
absl::Status FirstValues(const VariableSpec& variable, uint32_t index, uint64_t begin,
                         uint64_t seed, const InitialWeights* weights, const Block& block) {
  if (weights != nullptr && weights->Has(index)) return weights->Read(index, begin, block);
  for (const ChunkRef& chunk : block.chunks()) {
    RETURN_IF_ERROR(Initialize(variable, seed, begin, chunk.mutable_values()));
    begin += chunk.values().size();
  }
  return absl::OkStatus();
}

absl::StatusOr<TableContents> CreateTable(const VariableSpec& variable, const PartitionSpec& spec,
                                          const Optimizer& optimizer, uint64_t seed,
                                          const InitialWeights* weights) {
  TableContents contents;
  contents.fixed = std::make_unique<FixedTable>(OptimizerFor(variable, optimizer),
                                                PartitionShape(variable, spec), spec.row_begin(),
                                                variable.trainable());
  const uint64_t begin = spec.row_begin() * RowElements(variable);
  const PlacedIn<float> to = contents.fixed->PlaceOf(contents.fixed->columns()[0]);
  for (uint64_t done = 0; done < to.size; done += kChunkElements) {
    const Block piece(std::min(to.size - done, kChunkElements));
    RETURN_IF_ERROR(FirstValues(variable, spec.variable(), begin + done, seed, weights, piece));
    to.Put(done, piece.chunks()[0].values());
  }
  contents.fixed->FillSlots();
  return contents;
}

absl::StatusOr<PartitionContents> Create(const VariableSpec& variable, const PartitionSpec& spec,
                                         const Optimizer& optimizer, uint64_t seed,
                                         const InitialWeights* weights) {
  PartitionContents contents{
      .value = Block(PartitionElements(variable, spec)), .slots = {}, .ledger = {}};
  RETURN_IF_ERROR(FirstValues(variable, spec.variable(), spec.row_begin() * RowElements(variable),
                              seed, weights, contents.value));
  if (variable.trainable()) FillSlots(OptimizerFor(variable, optimizer), contents);
  return contents;
}

}  // namespace

LoadNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer) {
  constexpr uint64_t kMax = MemoryBudget::kUnlimited;
  uint64_t all = 0;
  uint64_t pushed = 0;
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    if (IsGrowing(variable)) {
      all = std::min(all + EmptyTableBytes(variable), kMax);
      continue;
    }
    const Optimizer own = OptimizerFor(variable, optimizer);
    if (KeepsFixedRows(variable, own)) {
      const uint64_t rows = spec.row_end() - spec.row_begin();
      const uint64_t bytes =
          FixedTable::BytesOf(own, rows, RowElements(variable), variable.trainable());
      all = std::min(all + bytes, kMax);
      continue;
    }
    const uint64_t bytes = PartitionElements(variable, spec) * sizeof(float);
    all = std::min(all + bytes, kMax);
    if (!variable.trainable()) continue;
    pushed = std::min(pushed + bytes, kMax);
    all = std::min(all + own.slots.size() * bytes, kMax);
  }
  return {all, pushed + pushed / 64 + (64 << 10)};  // what stands around the elements is little
}

namespace {

absl::Status Hold(const LoadNeed& need, MemoryBudget& memory) {
  const absl::Status held = memory.HoldVariables(need.all, need.pushed);
  return held.ok() ? held : absl::InvalidArgumentError(held.message());
}

TensorPlace PlaceOf(const Block& block) {
  TensorPlace place;
  for (const ChunkRef& chunk : block.chunks()) place.push_back(chunk.mutable_values());
  return place;
}

Partition::Facts FactsOf(const VariableSpec& variable, const PartitionSpec& spec, uint64_t bytes) {
  return {.id = spec.id(),
          .name = spec.name(),
          .shape = PartitionShape(variable, spec),
          .trained = variable.trainable(),
          .bytes = bytes,
          .row_begin = spec.row_begin()};
}

std::unique_ptr<Partition> MakePartition(const VariableSpec& variable, const PartitionSpec& spec,
                                         const Optimizer& optimizer, PartitionContents contents,
                                         const std::shared_ptr<PinnedBytes>& pinned) {
  return std::make_unique<DensePartition>(FactsOf(variable, spec, contents.value.bytes()),
                                          OptimizerFor(variable, optimizer), std::move(contents),
                                          pinned);
}

std::unique_ptr<Partition> MakePartition(const VariableSpec& variable, const PartitionSpec& spec,
                                         TableContents contents,
                                         const std::shared_ptr<PinnedBytes>& pinned) {
  const uint64_t bytes =
      contents.fixed == nullptr ? 0 : PartitionElements(variable, spec) * sizeof(float);
  return std::make_unique<TablePartition>(FactsOf(variable, spec, bytes), variable.shape(0),
                                          std::move(contents), pinned);
}

// Puts the rows that the initial weights have into the shards that are here, by variable.
using ShardsHere = std::map<uint32_t, std::map<uint32_t, GrowingTable*>>;
absl::Status AddRows(const InitialWeights& weights, const LoadRequest& request,
                     const ShardsHere& here) {
  for (const auto& [v, shards] : here) {
    if (!weights.HasRows(v)) continue;
    const uint64_t count = request.variables(static_cast<int>(v)).shape(0);
    RETURN_IF_ERROR(
        weights.ReadRows(v, [&, &shards = shards](uint64_t id, std::span<const float> row) {
          const auto shard = shards.find(ShardOfRow(id, count));
          return shard == shards.end() ? absl::OkStatus() : shard->second->AddRow(id, row);
        }));
  }
  return absl::OkStatus();
}

absl::Status CreateAll(Files& files, const Job& job, const LoadRequest& request,
                       const std::shared_ptr<PinnedBytes>& pinned, Content& content) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InitialWeights> weights,
                   InitialWeights::Open(files, job, Variables(request)));
  if (weights != nullptr) content.drawn = weights->Drawn(Variables(request));
  ShardsHere here;
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    if (IsGrowing(variable)) {
      TableContents table;
      ASSIGN_OR_RETURN(table.table, MakeTableOfShard(variable, content.optimizer, job.seed));
      here[spec.variable()][static_cast<uint32_t>(spec.row_begin())] = table.table.get();
      content.partitions.push_back(MakePartition(variable, spec, std::move(table), pinned));
      continue;
    }
    if (KeepsFixedRows(variable, OptimizerFor(variable, content.optimizer))) {
      ASSIGN_OR_RETURN(TableContents table,
                       CreateTable(variable, spec, content.optimizer, job.seed, weights.get()));
      content.partitions.push_back(MakePartition(variable, spec, std::move(table), pinned));
      continue;
    }
    ASSIGN_OR_RETURN(PartitionContents contents,
                     Create(variable, spec, content.optimizer, job.seed, weights.get()));
    content.partitions.push_back(
        MakePartition(variable, spec, content.optimizer, std::move(contents), pinned));
  }
  return weights == nullptr ? absl::OkStatus() : AddRows(*weights, request, here);
}

// A partition is restored as it was cut; cutting anew is refused by the coordinator.
absl::Status SameCut(const Manifest& manifest, const LoadRequest& request,
                     const PartitionSpec& spec, const std::string& directory) {
  const VariableSpec& now = request.variables(static_cast<int>(spec.variable()));
  if (spec.id() < manifest.partitions.size()) {
    const PartitionSpec& then = manifest.partitions[spec.id()].spec;
    const VariableSpec& was = manifest.variables[then.variable()];
    if (then.name() == spec.name() && then.row_begin() == spec.row_begin() &&
        then.row_end() == spec.row_end() && was.name() == now.name() &&
        was.trainable() == now.trainable() &&
        std::equal(was.shape().begin(), was.shape().end(), now.shape().begin(),
                   now.shape().end())) {
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(directory, ": its partition ", spec.id(),
                                                    " is not ", spec.name(), " as ordered"));
}

// A partition on its way from a checkpoint.
class Restoring {
 public:
  static absl::StatusOr<Restoring> Make(const VariableSpec& variable, const PartitionSpec& spec,
                                        const Optimizer& optimizer, uint64_t seed,
                                        MemoryReservation& memory) {
    Restoring made(variable, spec, memory);
    const Optimizer own = OptimizerFor(variable, optimizer);
    if (IsGrowing(variable)) {
      ASSIGN_OR_RETURN(made.table_.table, MakeTableOfShard(variable, optimizer, seed));
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

  TensorPlace PlaceOfTensor(bool delta, std::string_view slot, uint64_t elements) {
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

  // Takes over what one checkpoint of the chain has. The error lacks the partition's name.
  absl::Status EndLink(const StoredPartition& stored) {
    if (table_.fixed != nullptr) return FinishFixed(stored);
    return table_.table == nullptr ? absl::OkStatus() : FinishTable(stored);
  }

  // Once all is read. `restored` is the checkpoint, if a later one may continue it.
  absl::StatusOr<std::unique_ptr<Partition>> Finish(const StoredPartition& stored,
                                                    const Content& content,
                                                    const std::optional<CheckpointName>& restored,
                                                    const std::shared_ptr<PinnedBytes>& pinned) {
    ASSIGN_OR_RETURN(PartitionLedger ledger,
                     PartitionLedger::FromProto(stored.ledger, content.plan));
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
      table_.steps = ledger.applied();
      table_.ledger = std::move(ledger);
      table_.updates = stored.updates;
      table_.healthy = stored.healthy;
      return MakePartition(*variable_, *spec_, std::move(table_), pinned);
    }
    contents_.steps = ledger.applied();
    contents_.ledger = std::move(ledger);
    contents_.updates = stored.updates;
    contents_.healthy = stored.healthy;
    return MakePartition(*variable_, *spec_, content.optimizer, std::move(contents_), pinned);
  }

 private:
  Restoring(const VariableSpec& variable, const PartitionSpec& spec, MemoryReservation& memory)
      : variable_(&variable), spec_(&spec), memory_(&memory) {}

  static absl::Status NoSlot(const std::string& name) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has no slot ", name, ", which the optimizer needs"));
  }

  // The memory for rows of a fixed table that have changed.
  TensorPlace PlaceOfChanged(std::string_view slot, uint64_t elements) {
    if (table_.fixed == nullptr || slot != kRowsSlot) return TensorPlace();
    memory_->Count(elements * sizeof(float));
    changed_.resize(elements);
    return {changed_};
  }

  absl::Status FinishFixed(const StoredPartition& stored) {
    if (changed_.empty() && !stored.table.has_value()) return absl::OkStatus();
    if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
    RETURN_IF_ERROR(table_.fixed->RestoreChanged(*stored.table, changed_));
    memory_->Less(changed_.size() * sizeof(float));
    changed_ = {};
    return absl::OkStatus();
  }

  TensorPlace PlaceInColumn(size_t index, uint64_t elements) {
    const PlacedIn<float> place = table_.fixed->PlaceOf(table_.fixed->columns()[index]);
    return place.size == elements ? TensorPlace{place} : TensorPlace();
  }

  TensorPlace PlaceInTable(bool delta, std::string_view slot, uint64_t elements) {
    GrowingTable& table = *table_.table;
    if (slot == kRowsSlot) {
      words_ = elements;
      if (elements % table.record_words() != 0) return TensorPlace();
      memory_->Count(elements * sizeof(float));
      if (!delta) {
        const std::vector<std::span<float>> room =
            table.RestoreRoom(elements / table.record_words());
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

  absl::Status FinishTable(const StoredPartition& stored) {
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
    const bool same = was.steps == table.counts_steps() &&
                      was.slots.size() == table.slots().size() && was.row_slots == row_slots;
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

  const VariableSpec* variable_;
  const PartitionSpec* spec_;
  MemoryReservation* memory_;            // rows count as variables only when all is there
  std::vector<SlotSpec> slots_;          // that are tensors of their own
  std::vector<uint64_t> slot_elements_;  // that were found of them
  PartitionContents contents_;
  TableContents table_;
  uint64_t words_ = 0;             // of the table's rows
  bool candidates_ = false;        // as many were there
  std::vector<float> changed_;     // the rows of a delta, as words
  std::vector<uint64_t> removed_;  // and the ids that it removes
};

absl::Status RestoreAll(Files& files, const std::string& directory, const LoadRequest& request,
                        const Job& job, const std::shared_ptr<PinnedBytes>& pinned,
                        KnownDamage& damage, MemoryReservation& memory, Content& content) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, directory));
  if (manifest.run_id != request.fence().run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is of run ", manifest.run_id,
                                                      ", not ", request.fence().run_id()));
  }
  std::vector<uint32_t> ids;
  std::vector<Restoring> restored;
  for (const PartitionSpec& spec : request.partitions()) {
    RETURN_IF_ERROR(SameCut(manifest, request, spec, directory));
    ids.push_back(spec.id());
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    ASSIGN_OR_RETURN(Restoring one,
                     Restoring::Make(variable, spec, content.optimizer, job.seed, memory));
    restored.push_back(std::move(one));
  }
  const auto place = [&](size_t i, bool delta, std::string_view slot, uint64_t elements) {
    return restored[i].PlaceOfTensor(delta, slot, elements);
  };
  const auto named = [&](size_t i, const absl::Status& status) {
    if (status.ok()) return status;
    const std::string& name = request.partitions(static_cast<int>(i)).name();
    return absl::Status(status.code(), absl::StrCat(directory, ": partition ", name, ": ",
                                                    std::string(status.message())));
  };
  const auto done = [&](size_t i, const StoredPartition& link) {
    return restored[i].EndLink(link);
  };
  ASSIGN_OR_RETURN(const std::vector<StoredPartition> stored,
                   ReadChained(files, directory, manifest, ids, place, done, damage));
  std::optional<CheckpointName> own;
  if (job.checkpoint.full_every > 1) own = manifest.name;
  for (size_t i = 0; i < stored.size(); ++i) {
    absl::StatusOr<std::unique_ptr<Partition>> partition =
        restored[i].Finish(stored[i], content, own, pinned);
    RETURN_IF_ERROR(named(i, partition.status()));
    content.partitions.push_back(*std::move(partition));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Content>> LoadContent(Files& files, const std::string& dir,
                                                           uint64_t partition_bytes_max,
                                                           std::shared_ptr<PinnedBytes> pinned,
                                                           MemoryBudget& memory,
                                                           KnownDamage& damage,
                                                           const LoadRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request, partition_bytes_max));
  ASSIGN_OR_RETURN(const Job job, ParseJob(request.job_json()));
  auto content = std::make_shared<Content>();
  content->run_id = request.fence().run_id();
  content->loaded_generation = request.fence().generation();
  content->plan = request.plan();
  content->sync = job.guarantees.sync();
  content->timeouts = job.timeouts;
  content->settings = PsSettings(job);
  content->batches_end = BatchesOfJob(request.plan(), job.epochs, job.steps);
  ASSIGN_OR_RETURN(content->optimizer, ParseOptimizer(job.optimizer));
  RETURN_IF_ERROR(Hold(NeedOf(request, content->optimizer), memory));
  MemoryReservation restores(*memory.restores());
  if (request.checkpoint().empty()) {
    RETURN_IF_ERROR(CreateAll(files, job, request, pinned, *content));
  } else if (!ParseCheckpointName(request.checkpoint()).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.checkpoint(), "\" is no name of a checkpoint"));
  } else {
    const std::string directory =
        absl::StrCat(CheckpointsDirectory(dir), "/", request.checkpoint());
    RETURN_IF_ERROR(files.CheckBeneath(CheckpointsDirectory(dir), request.checkpoint()));
    RETURN_IF_ERROR(RestoreAll(files, directory, request, job, pinned, damage, restores, *content));
  }
  // A checkpoint and initial weights have rows of growing tables. They are never refused, because a
  // ps that has trained with them has to be able to come back.
  CountTables(*content, memory);
  std::sort(content->partitions.begin(), content->partitions.end(),
            [](const auto& a, const auto& b) { return a->facts().id < b->facts().id; });
  content->trained = static_cast<size_t>(
      std::count_if(content->partitions.begin(), content->partitions.end(),
                    [](const auto& partition) { return partition->facts().trained; }));
  return std::shared_ptr<const Content>(std::move(content));
}

}  // namespace paracord
