#include "sim/sync_reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/cord.h"
#include "common/memory_budget.h"
#include "common/squares.h"
#include "config/partitions.h"
#include "coordinator/core/partitioner.h"
#include "exchange/encoding.h"
#include "sim/seen_partition.h"
#include "sim/stored_files.h"
#include "store/loader.h"

namespace paracord {
namespace {

absl::Cord CordOf(std::span<const float> values) {
  return absl::Cord(
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

// Converts variables of a job with rounds for a twin job without rounds, whose batch is a round of
// `lanes` batches: expiry is counted in rounds.
std::vector<VariableSpec> WithoutRounds(std::vector<VariableSpec> variables, uint64_t lanes) {
  for (VariableSpec& variable : variables) {
    const uint64_t expire = variable.table().expire_batches();
    if (expire > 0) variable.mutable_table()->set_expire_batches((expire + lanes - 1) / lanes);
  }
  return variables;
}

}  // namespace

SyncReference::SyncReference(const SimStorage& storage, const Job& job,
                             const CountingOptions& counting, const DataPlan& plan)
    : job_(job),
      counting_(counting),
      plan_(plan),
      wire_(EncodingOfWire(job.wire)),
      workload_(MakeCountingWorkload(counting)) {
  workload_.feed->Start(plan);
  const auto& declared = workload_.facts.variables();
  variables_.assign(declared.begin(), declared.end());
  partitions_ = PartitionVariables(variables_, job.partitioner).value();
  Job twin = job;
  twin.guarantees = {};
  for (const char* key : {"clipnorm", "global_clipnorm"}) twin.optimizer.options.erase(key);
  LoadRequest load;
  load.set_job_json(JobToJson(twin));
  load.mutable_fence()->set_run_id("reference");
  load.mutable_fence()->set_generation(1);
  *load.mutable_plan() = plan;
  load.mutable_plan()->set_lanes(0);
  const uint64_t lanes = std::min<uint64_t>(plan.lanes(), counting.batches);
  for (const VariableSpec& variable : WithoutRounds(variables_, lanes)) {
    *load.add_variables() = variable;
  }
  for (const PartitionSpec& partition : partitions_) *load.add_partitions() = partition;
  StoredFiles files(storage);
  MemoryBudget memory;
  KnownDamage damage;
  content_ = LoadContent(files, "/nowhere", MemoryBudget::kUnlimited,
                         std::make_shared<PinnedBytes>(), memory, damage, load)
                 .value();
}

bool SyncReference::trained(uint32_t partition) const {
  return variables_[partitions_[partition].variable()].trainable();
}

const SyncReference::State& SyncReference::At(uint64_t state) {
  while (states_.size() <= state) {
    if (!states_.empty()) Next();
    State& now = states_.emplace_back();
    for (const auto& partition : content_->partitions) {
      now.values.push_back(SeenValues(counting_, *partition));
      now.stored.push_back(partition->growing() ? StoredTensors() : ImageOf(*partition));
      now.stored.back().updates = partition->GetCounts().updates;
    }
  }
  return states_[state];
}

namespace {

std::vector<float> OnTheWire(Encoding encoding, std::span<const float> values) {
  std::string bytes(values.size() * ElementBytes(encoding), '\0');
  EncodeDense(encoding, values, bytes.data());
  std::vector<float> result(values.size());
  DecodeDense(encoding, absl::Cord(bytes), result);
  return result;
}

}  // namespace

std::vector<float> SyncReference::Pulled(uint64_t state, uint32_t partition, const Rows& rows,
                                         Encoding encoding) {
  const std::vector<float> values = OnTheWire(encoding, At(state).values[partition]);
  if (!rows.has_value()) return values;
  const PartitionSpec& spec = partitions_[partition];
  const bool growing = IsGrowing(variables_[spec.variable()]);
  const std::vector<uint64_t> known =
      growing ? CountingIdsOf(counting_, spec.row_begin()) : std::vector<uint64_t>();
  std::vector<float> result;
  for (const uint64_t id : *rows) {
    const auto row = growing ? std::ranges::lower_bound(known, id) - known.begin()
                             : static_cast<std::ptrdiff_t>(id - spec.row_begin());
    const auto width = static_cast<std::ptrdiff_t>(counting_.batches);
    result.insert(result.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
  }
  return result;
}

// Returns the values of all variables at `state`; of tables only the rows that a batch reads.
std::vector<std::vector<float>> SyncReference::Gather(uint64_t state, const TableRows* rows,
                                                      Encoding encoding) {
  std::vector<std::vector<float>> values(variables_.size());
  for (const PartitionSpec& spec : partitions_) {
    const uint32_t v = spec.variable();
    Rows read;
    if (variables_[v].has_table() && rows != nullptr) {
      read.emplace();
      for (const uint64_t id : rows->ids[v]) {
        const bool here = IsGrowing(variables_[v])
                              ? ShardOfRow(id, counting_.rows) == spec.row_begin()
                              : spec.row_begin() <= id && id < spec.row_end();
        if (here) read->push_back(id);
      }
    }
    const std::vector<float> pulled = Pulled(state, spec.id(), read, encoding);
    values[v].insert(values[v].end(), pulled.begin(), pulled.end());
  }
  return values;
}

// Returns nullopt for a batch that fails on every worker.
std::optional<SyncReference::Sum> SyncReference::GradientOf(uint64_t epoch, uint64_t place,
                                                            uint64_t& examples) {
  if (counting_.unreadable.contains(place) || counting_.nonfinite.contains(place)) return {};
  BatchId id;
  id.set_epoch(epoch);
  id.set_split(place % plan_.lanes());
  id.set_batch(static_cast<uint32_t>(place / plan_.lanes()));
  const Batch& batch = **workload_.feed->Get(id, {});
  const std::shared_ptr<const TableRows> rows = *workload_.program->RowsOf(batch);
  const std::vector<std::vector<float>> values = Gather(states_.size() - 1, rows.get(), wire_);
  std::vector<std::vector<float>> gradients = values;
  std::vector<std::span<const float>> in(values.begin(), values.end());
  std::vector<std::span<float>> out;
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (!variables_[v].trainable()) gradients[v].clear();
    out.emplace_back(gradients[v]);
  }
  workload_.program->ComputeGradients(batch, 0, in, out).value();
  examples += batch.examples;
  const auto share =
      static_cast<float>(static_cast<double>(batch.examples) / static_cast<double>(plan_.batch()));
  for (std::vector<float>& gradient : gradients) {
    for (float& element : gradient) element *= share;
  }
  Sum sum;
  std::vector<size_t> at(variables_.size());
  for (const PartitionSpec& spec : partitions_) {
    const uint32_t v = spec.variable();
    if (!variables_[v].trainable()) continue;
    Part& part = sum[spec.id()];
    part.by_rows = variables_[v].has_table();
    const size_t width = counting_.batches;
    const auto take = [&](size_t elements) {
      const std::vector<float> taken =
          OnTheWire(wire_, std::span(gradients[v]).subspan(at[v], elements));
      at[v] += elements;
      return taken;
    };
    if (!part.by_rows) {
      part.all = take((spec.row_end() - spec.row_begin()) * width);
      continue;
    }
    for (const uint64_t row : rows->ids[v]) {
      const bool here = IsGrowing(variables_[v])
                            ? ShardOfRow(row, counting_.rows) == spec.row_begin()
                            : spec.row_begin() <= row && row < spec.row_end();
      if (here) part.rows[row] = take(width);
    }
  }
  return sum;
}

// Sums pairwise, half by half. The number of lanes is a power of two.
std::optional<SyncReference::Sum> SyncReference::SumOf(
    std::span<const std::optional<Sum>> lanes) const {
  if (lanes.size() == 1) return lanes[0];
  std::optional<Sum> left = SumOf(lanes.first(lanes.size() / 2));
  const std::optional<Sum> right = SumOf(lanes.subspan(lanes.size() / 2));
  if (!left.has_value() || !right.has_value()) return left.has_value() ? left : right;
  const auto add = [](std::vector<float>& to, const std::vector<float>& other) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += other[i];
  };
  for (auto& [partition, part] : *left) {
    const Part& other = right->at(partition);
    add(part.all, other.all);
    for (const auto& [id, row] : other.rows) {
      const auto [it, fresh] = part.rows.try_emplace(id, row);
      if (!fresh) add(it->second, row);
    }
  }
  return left;
}

namespace {

// Adds in blocks of eight running sums, as the ps does: the order of additions decides the bits.
double SquaresOf(std::span<const float> values) {
  double all = 0;
  for (size_t first = 0; first < values.size(); first += kSquaresBlock) {
    const std::span<const float> block =
        values.subspan(first, std::min(kSquaresBlock, values.size() - first));
    double sums[8] = {};
    for (size_t i = 0; i < block.size(); ++i) {
      sums[i % 8] += static_cast<double>(block[i]) * static_cast<double>(block[i]);
    }
    double sum = 0;
    for (const double eighth : sums) sum += eighth;
    all += sum;
  }
  return all;
}

}  // namespace

// Computes squared norms per variable first. Partitions are ordered by variable.
void SyncReference::ClipMean(Sum& mean) const {
  const auto option = [&](const char* name) { return job_.optimizer.options.value(name, 0.0); };
  const double own = option("clipnorm"), global = option("global_clipnorm");
  if (own == 0 && global == 0) return;
  std::vector<double> squares(variables_.size());
  for (const auto& [id, part] : mean) squares[partitions_[id].variable()] += SquaresOf(part.all);
  double all = 0;
  for (const double of_variable : squares) all += of_variable;
  for (auto& [id, part] : mean) {
    const double most = own > 0 ? own : global;
    const double norm = std::sqrt(own > 0 ? squares[partitions_[id].variable()] : all);
    if (norm <= most) continue;
    const auto factor = static_cast<float>(most / norm);
    for (float& element : part.all) element *= factor;
  }
}

void SyncReference::Next() {
  const uint64_t round = states_.size() - 1, batches = counting_.batches;
  const uint64_t rounds = (batches + plan_.lanes() - 1) / plan_.lanes();  // rounds per epoch
  std::vector<std::optional<Sum>> lanes;
  uint64_t examples = 0;
  for (uint64_t lane = 0; lane < plan_.lanes(); ++lane) {
    const uint64_t place = round % rounds * plan_.lanes() + lane;
    lanes.push_back(place < batches ? GradientOf(round / rounds, place, examples) : std::nullopt);
  }
  while ((lanes.size() & (lanes.size() - 1)) != 0) lanes.emplace_back();
  std::optional<Sum> sum = SumOf(lanes);
  if (!sum.has_value()) return;
  const auto factor =
      static_cast<float>(static_cast<double>(plan_.batch()) / static_cast<double>(examples));
  for (auto& [id, part] : *sum) {
    for (const auto& [row, values] : part.rows) {
      part.all.insert(part.all.end(), values.begin(), values.end());
    }
    for (float& element : part.all) element *= factor;
  }
  ClipMean(*sum);
  for (auto& [id, part] : *sum) {
    PartitionUpdate update;
    if (part.by_rows) {
      update.rows.emplace();
      for (const auto& [row, values] : part.rows) update.rows->push_back(row);
    }
    if (!part.all.empty()) update.gradient = Gradient(CordOf(part.all));
    content_->partitions[id]->Push({.split = round, .batch = 0, .split_batches = 1}, false, update,
                                   {});
  }
}

double SyncReference::LossAt(uint64_t state) {
  std::vector<uint64_t> records(counting_.test_records);
  for (uint64_t record = 0; record < records.size(); ++record) records[record] = record;
  Batch batch = workload_.test->schema();
  workload_.test->Read(records, batch).IgnoreError();
  At(state);
  const std::shared_ptr<const TableRows> rows = *workload_.program->RowsOf(batch);
  const std::vector<std::vector<float>> values = Gather(state, rows.get(), ENCODING_FLOAT32);
  const std::vector<std::span<const float>> in(values.begin(), values.end());
  std::vector<MetricState> states;
  workload_.program->Evaluate(batch, in, states).IgnoreError();
  return states[0].values(0) / states[0].values(1);
}

}  // namespace paracord
