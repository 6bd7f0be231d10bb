#include "store/loader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "store/initial_weights.h"
#include "store/initializer.h"

namespace paracord {
namespace {

std::vector<VariableSpec> Variables(const LoadRequest& request) {
  return {request.variables().begin(), request.variables().end()};
}

absl::Status CheckRequest(const LoadRequest& request, uint64_t partition_bytes_max) {
  RETURN_IF_ERROR(CheckDataPlan(request.plan()));
  const std::vector<VariableSpec> variables = Variables(request);
  RETURN_IF_ERROR(CheckVariables(variables));
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

// `weights` null, or without the variable: from the initializer.
absl::StatusOr<PartitionContents> Create(const VariableSpec& variable, const PartitionSpec& spec,
                                         const Optimizer& optimizer, uint64_t seed,
                                         const InitialWeights* weights) {
  const uint64_t elements = PartitionElements(variable, spec);
  uint64_t begin = spec.row_begin() * RowElements(variable);
  PartitionContents contents{.value = Block(elements), .slots = {}, .ledger = {}};
  if (weights != nullptr && weights->Has(spec.variable())) {
    RETURN_IF_ERROR(weights->Read(spec.variable(), begin, contents.value));
  } else {
    for (const ChunkRef& chunk : contents.value.chunks()) {
      RETURN_IF_ERROR(Initialize(variable, seed, begin, chunk.mutable_values()));
      begin += chunk.values().size();
    }
  }
  if (variable.trainable()) {
    FillSlots(OptimizerFor(variable, optimizer), contents, spec.row_end() - spec.row_begin());
  }
  return contents;
}

TensorPlace PlaceOf(const Block& block) {
  TensorPlace place;
  for (const ChunkRef& chunk : block.chunks()) place.push_back(chunk.mutable_values());
  return place;
}

std::unique_ptr<Partition> MakePartition(const VariableSpec& variable, const PartitionSpec& spec,
                                         const Optimizer& optimizer, PartitionContents contents,
                                         const std::shared_ptr<PinnedBytes>& pinned) {
  Partition::Facts facts{.id = spec.id(),
                         .name = spec.name(),
                         .shape = PartitionShape(variable, spec),
                         .trained = variable.trainable(),
                         .bytes = contents.value.bytes(),
                         .row_begin = spec.row_begin()};
  return std::make_unique<Partition>(std::move(facts), OptimizerFor(variable, optimizer),
                                     std::move(contents), pinned);
}

absl::Status CreateAll(Files& files, const Job& job, const LoadRequest& request,
                       const std::shared_ptr<PinnedBytes>& pinned, Content& content) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InitialWeights> weights,
                   InitialWeights::Open(files, job, Variables(request)));
  if (weights != nullptr) content.drawn = weights->Drawn(Variables(request));
  for (const PartitionSpec& spec : request.partitions()) {
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    ASSIGN_OR_RETURN(PartitionContents contents,
                     Create(variable, spec, content.optimizer, job.seed, weights.get()));
    content.partitions.push_back(
        MakePartition(variable, spec, content.optimizer, std::move(contents), pinned));
  }
  return absl::OkStatus();
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

absl::Status RestoreAll(Files& files, const std::string& directory, const LoadRequest& request,
                        const std::shared_ptr<PinnedBytes>& pinned, Content& content) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, directory));
  if (manifest.run_id != request.fence().run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is of run ", manifest.run_id,
                                                      ", not ", request.fence().run_id()));
  }
  struct Restored {
    const VariableSpec& variable;
    std::vector<SlotSpec> slots;
    PartitionContents contents;
  };
  std::vector<uint32_t> ids;
  std::vector<Restored> restored;
  for (const PartitionSpec& spec : request.partitions()) {
    RETURN_IF_ERROR(SameCut(manifest, request, spec, directory));
    ids.push_back(spec.id());
    const VariableSpec& variable = request.variables(static_cast<int>(spec.variable()));
    Restored& partition = restored.emplace_back(Restored{variable, {}, {}});
    if (variable.trainable()) {
      partition.slots = StoredSlots(OptimizerFor(variable, content.optimizer));
    }
    partition.contents.slots.resize(partition.slots.size(), Block(0));
  }
  const auto place = [&](size_t i, std::string_view slot) {
    auto& [variable, slots, contents] = restored[i];
    const PartitionSpec& spec = request.partitions(static_cast<int>(i));
    const uint64_t elements = PartitionElements(variable, spec);
    if (slot.empty()) return PlaceOf(contents.value = Block(elements));
    for (size_t s = 0; s < slots.size(); ++s) {
      if (slots[s].name != slot) continue;
      const uint64_t own = slots[s].of_rows ? spec.row_end() - spec.row_begin() : elements;
      return PlaceOf(contents.slots[s] = Block(own));
    }
    return TensorPlace();
  };
  ASSIGN_OR_RETURN(const std::vector<StoredPartition> stored,
                   ReadPartitions(files, directory, manifest, ids, place));
  for (size_t i = 0; i < stored.size(); ++i) {
    const PartitionSpec& spec = request.partitions(static_cast<int>(i));
    auto& [variable, slots, contents] = restored[i];
    const auto refuse = [&](absl::StatusCode code, absl::string_view why) {
      return absl::Status(code, absl::StrCat(directory, ": partition ", spec.name(), ": ", why));
    };
    for (size_t s = 0; s < slots.size(); ++s) {
      if (contents.slots[s].elements() != 0) continue;
      return refuse(absl::StatusCode::kFailedPrecondition,
                    absl::StrCat("it has no slot ", slots[s].name, ", which the optimizer needs"));
    }
    absl::StatusOr<PartitionLedger> ledger =
        PartitionLedger::FromProto(stored[i].ledger, content.plan);
    if (!ledger.ok()) return refuse(ledger.status().code(), ledger.status().message());
    contents.ledger = *std::move(ledger);
    contents.updates = stored[i].updates;
    contents.healthy = stored[i].healthy;
    content.partitions.push_back(
        MakePartition(variable, spec, content.optimizer, std::move(contents), pinned));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Content>> LoadContent(Files& files, const std::string& dir,
                                                           uint64_t partition_bytes_max,
                                                           std::shared_ptr<PinnedBytes> pinned,
                                                           const LoadRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request, partition_bytes_max));
  ASSIGN_OR_RETURN(const Job job, ParseJob(request.job_json()));
  auto content = std::make_shared<Content>();
  content->run_id = request.fence().run_id();
  content->loaded_generation = request.fence().generation();
  content->plan = request.plan();
  content->timeouts = job.timeouts;
  content->settings = PsSettings(job);
  content->batches_end = BatchesOfJob(request.plan(), job.epochs, job.steps);
  ASSIGN_OR_RETURN(content->optimizer, ParseOptimizer(job.optimizer));
  if (request.checkpoint().empty()) {
    RETURN_IF_ERROR(CreateAll(files, job, request, pinned, *content));
  } else if (!ParseCheckpointName(request.checkpoint()).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.checkpoint(), "\" is no name of a checkpoint"));
  } else {
    const std::string directory =
        absl::StrCat(CheckpointsDirectory(dir), "/", request.checkpoint());
    RETURN_IF_ERROR(files.CheckBeneath(CheckpointsDirectory(dir), request.checkpoint()));
    RETURN_IF_ERROR(RestoreAll(files, directory, request, pinned, *content));
  }
  std::sort(content->partitions.begin(), content->partitions.end(),
            [](const auto& a, const auto& b) { return a->facts().id < b->facts().id; });
  content->trained = static_cast<size_t>(
      std::count_if(content->partitions.begin(), content->partitions.end(),
                    [](const auto& partition) { return partition->facts().trained; }));
  return std::shared_ptr<const Content>(std::move(content));
}

}  // namespace paracord
