#include "store/loader.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/norm_clip.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "store/initial_weights.h"
#include "store/initializer.h"
#include "store/partition_maker.h"
#include "store/preparation.h"

namespace paracord {
namespace {

std::vector<VariableSpec> Variables(const LoadRequest& request) {
  return {request.variables().begin(), request.variables().end()};
}

}  // namespace

absl::Status CheckLoad(const LoadRequest& request, uint64_t partition_bytes_max) {
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

namespace {

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

// For each variable of the job, whether the order has all of its partitions.
std::vector<bool> WholeVariables(const LoadRequest& request) {
  std::vector<uint64_t> elements(static_cast<size_t>(request.variables_size()));
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    elements[spec.variable()] += PartitionElements(variable, spec);
  }
  std::vector<bool> whole;
  for (size_t v = 0; v < elements.size(); ++v) {
    const VariableSpec& variable = request.variables(static_cast<int>(v));
    const uint64_t rows = variable.shape_size() == 0 ? 1 : variable.shape(0);
    whole.push_back(elements[v] == rows * RowElements(variable));
  }
  return whole;
}

std::optional<RoundClip> ClipOfRounds(const Job& job, const LoadRequest& request) {
  const NormClip clip = ReadNormClip(job.optimizer);
  if (!job.guarantees.sync() || !clip.on()) return {};
  RoundClip of_rounds{clip, WholeVariables(request)};
  of_rounds.alone =
      std::ranges::all_of(request.variables(), [&, v = size_t{0}](const auto& variable) mutable {
        return of_rounds.whole[v++] || !variable.trainable();
      });
  return of_rounds;
}

}  // namespace

MemoryNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer,
                  const RoundsNeed& rounds) {
  std::vector<PartitionNeed> needs;
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    const Optimizer own = OptimizerFor(variable, optimizer);
    PartitionNeed& need = needs.emplace_back();
    const bool fixed = KeepsFixedRows(variable, own);
    need.trains_rows = variable.trainable() && (IsGrowing(variable) || fixed);
    if (IsGrowing(variable)) {
      need.resident = EmptyTableBytes(variable);
    } else if (fixed) {
      const uint64_t rows = spec.row_end() - spec.row_begin();
      need.resident = FixedTable::BytesOf(own, rows, RowElements(variable), variable.trainable());
    } else {
      const uint64_t bytes = PartitionElements(variable, spec) * sizeof(float);
      need.resident = bytes;
      if (variable.trainable()) {
        need.resident += own.slots.size() * bytes;
        need.pushed = bytes;
      }
    }
  }
  return NeedOfAll(needs, rounds);
}

namespace {

absl::Status Hold(const MemoryNeed& need, MemoryBudget& memory) {
  const absl::Status held =
      memory.HoldVariables(need.variables, need.pushed, need.rounds, need.round_rows);
  return held.ok() ? held : absl::InvalidArgumentError(held.message());
}

// Puts the rows of the initial weights into the growing tables' shards of this ps, by variable.
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
                       const PartitionMaker& maker, PartitionSet& content) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InitialWeights> weights,
                   InitialWeights::Open(files, job, Variables(request)));
  if (weights != nullptr) content.drawn = weights->Drawn(Variables(request));
  ShardsHere here;
  const auto make = [&](const VariableSpec& variable, const PartitionSpec& spec,
                        auto contents) -> absl::Status {
    RETURN_IF_ERROR(contents.status());
    ASSIGN_OR_RETURN(std::unique_ptr<Partition> partition,
                     maker.Make(variable, spec, *std::move(contents)));
    content.partitions.push_back(std::move(partition));
    return absl::OkStatus();
  };
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    if (IsGrowing(variable)) {
      TableContents table;
      ASSIGN_OR_RETURN(table.table, maker.MakeShard(variable));
      here[spec.variable()][static_cast<uint32_t>(spec.row_begin())] = table.table.get();
      RETURN_IF_ERROR(make(variable, spec, absl::StatusOr<TableContents>(std::move(table))));
    } else if (KeepsFixedRows(variable, maker.OptimizerOf(variable))) {
      RETURN_IF_ERROR(make(
          variable, spec, CreateTable(variable, spec, content.optimizer, job.seed, weights.get())));
    } else {
      RETURN_IF_ERROR(
          make(variable, spec, Create(variable, spec, content.optimizer, job.seed, weights.get())));
    }
  }
  return weights == nullptr ? absl::OkStatus() : AddRows(*weights, request, here);
}

// No checkpoint of a synchronous job has two states.
absl::Status CheckOneState(const std::string& directory, const PartitionSet& content) {
  const Partition* first = nullptr;
  for (const auto& partition : content.partitions) {
    if (!content.sync || !partition->facts().trained) continue;
    if (first == nullptr) first = partition.get();
    const uint64_t state = partition->GetCounts().state;
    const uint64_t expected = first->GetCounts().state;
    if (state == expected) continue;
    return absl::DataLossError(
        absl::StrCat(directory, ": partition ", first->facts().name, " is at state ", expected,
                     " and partition ", partition->facts().name, " at state ", state,
                     ": all partitions of a synchronous job's checkpoint are at one"));
  }
  return absl::OkStatus();
}

void SortById(PartitionSet& content) {
  std::sort(content.partitions.begin(), content.partitions.end(),
            [](const auto& a, const auto& b) { return a->facts().id < b->facts().id; });
}

// Takes over, ascending by id, the partitions of the order that the ps has now.
absl::Status Retain(const LoadRequest& request, const PartitionSet* held, PartitionSet& content) {
  if (!request.retain()) return absl::OkStatus();
  if (content.sync) {
    return absl::InvalidArgumentError(
        "`retain` is ordered in synchronous training, where all partitions go on from one cut");
  }
  if (held == nullptr || held->run_id != content.run_id) return absl::OkStatus();
  std::set<uint32_t> ordered;
  for (const PartitionSpec& spec : request.partitions()) ordered.insert(spec.id());
  for (const std::shared_ptr<Partition>& partition : held->partitions) {
    if (ordered.contains(partition->facts().id)) content.partitions.push_back(partition);
  }
  return absl::OkStatus();
}

// Adds the prepared partitions, and reads the others from the checkpoint in `directory`.
absl::Status RestoreAll(Files& files, const std::string& directory, const LoadRequest& request,
                        const Job& job, const PartitionMaker& maker, KnownDamage& damage,
                        MemoryReservation& memory, PreparedLoad* prepared, PartitionSet& content) {
  const bool continued = job.checkpoint.full_every > 1;
  const auto add = [&](Preparation& read) -> absl::Status {
    RETURN_IF_ERROR(read.Read(files, directory, damage));
    ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Partition>> made, read.Finish(continued));
    for (std::unique_ptr<Partition>& one : made) content.partitions.push_back(std::move(one));
    SortById(content);
    return absl::OkStatus();
  };
  if (prepared != nullptr && prepared->IsFor(request)) {
    prepared->partitions().Keep(request, content);
    RETURN_IF_ERROR(add(prepared->partitions()));
  }
  Preparation rest(request, content, maker, memory);
  RETURN_IF_ERROR(add(rest));
  return CheckOneState(directory, content);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PartitionSet>> LoadContent(
    Files& files, const std::string& dir, uint64_t partition_bytes_max,
    std::shared_ptr<PinnedBytes> pinned, MemoryBudget& memory, KnownDamage& damage,
    const LoadRequest& request, const HeldBefore& before) {
  RETURN_IF_ERROR(CheckLoad(request, partition_bytes_max));
  ASSIGN_OR_RETURN(const Job job, ParseJob(request.job_json()));
  auto content = std::make_shared<PartitionSet>();
  content->run_id = request.fence().run_id();
  content->loaded_generation = request.fence().generation();
  content->plan = request.plan();
  content->sync = job.guarantees.sync();
  content->timeouts = job.timeouts;
  content->settings = PsSettings(job);
  content->batches_end = BatchesOfJob(request.plan(), job.epochs, job.steps);
  ASSIGN_OR_RETURN(content->optimizer, ParseOptimizer(job.optimizer));
  content->clip = ClipOfRounds(job, request);
  RoundsNeed rounds;
  if (content->sync) {
    rounds = {static_cast<uint32_t>(SplitsPerEpoch(content->plan)), request.keeps_before()};
    content->round_rows = memory.rounds();
  }
  RETURN_IF_ERROR(Hold(NeedOf(request, content->optimizer, rounds), memory));
  MemoryReservation restores(*memory.restores());
  const PartitionMaker maker(*content, request.keeps_before(), job.seed, std::move(pinned));
  if (request.checkpoint().empty()) {
    RETURN_IF_ERROR(CreateAll(files, job, request, maker, *content));
  } else if (!ParseCheckpointName(request.checkpoint()).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.checkpoint(), "\" is no name of a checkpoint"));
  } else {
    const std::string directory =
        absl::StrCat(CheckpointsDirectory(dir), "/", request.checkpoint());
    RETURN_IF_ERROR(files.CheckBeneath(CheckpointsDirectory(dir), request.checkpoint()));
    RETURN_IF_ERROR(Retain(request, before.content, *content));
    RETURN_IF_ERROR(RestoreAll(files, directory, request, job, maker, damage, restores,
                               before.prepared, *content));
  }
  // Rows of growing tables from a checkpoint or initial weights are counted but never refused: a ps
  // that has trained with the rows must be able to come back.
  CountTables(*content, memory);
  SortById(*content);
  content->trained = static_cast<size_t>(
      std::count_if(content->partitions.begin(), content->partitions.end(),
                    [](const auto& partition) { return partition->facts().trained; }));
  return std::shared_ptr<const PartitionSet>(std::move(content));
}

}  // namespace paracord
