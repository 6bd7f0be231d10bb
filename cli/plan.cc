#include "cli/plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "common/status_macros.h"
#include "config/job_rounds.h"
#include "config/limits.h"
#include "config/partitions.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"
#include "store/admission.h"

namespace paracord {
namespace {

// A plan of at least kManyPartitions, smaller than kSmallPartitionBytes on average, is a warning.
constexpr size_t kManyPartitions = 1000;
constexpr uint64_t kSmallPartitionBytes = 4096;

std::string VariableShape(const VariableSpec& variable) {
  if (!IsGrowing(variable)) return absl::StrCat("(", absl::StrJoin(variable.shape(), ", "), ")");
  const std::vector<uint64_t> row(variable.shape().begin() + 1, variable.shape().end());
  return absl::StrCat("(any id, ", absl::StrJoin(row, ", "), ")");
}

std::string PartitionerText(const PartitionerSpec& spec) {
  const std::string max_shards =
      spec.max_shards ? absl::StrCat(", max_shards ", *spec.max_shards) : "";
  switch (spec.kind) {
    case PartitionerSpec::Kind::kFixedShards:
      return absl::StrCat("fixed_shards ", spec.shards);
    case PartitionerSpec::Kind::kMinSize:
      return absl::StrCat("min_size ", HumanBytes(spec.min_shard_bytes), max_shards);
    case PartitionerSpec::Kind::kMaxSize:
      return absl::StrCat("max_size ", HumanBytes(spec.max_shard_bytes), max_shards);
  }
  return "";
}

void PrintVariables(std::span<const VariableSpec> variables,
                    std::span<const PartitionSpec> partitions, std::span<const uint64_t> bytes,
                    std::ostream& out) {
  std::vector<uint64_t> variable_bytes(variables.size());
  std::vector<uint64_t> parts(variables.size());
  uint64_t sum = 0;
  for (size_t i = 0; i < partitions.size(); ++i) {
    variable_bytes[partitions[i].variable()] += bytes[i];
    ++parts[partitions[i].variable()];
    sum += bytes[i];
  }
  size_t name_width = 0;
  size_t shape_width = 0;
  for (const VariableSpec& variable : variables) {
    name_width = std::max(name_width, variable.name().size());
    shape_width = std::max(shape_width, VariableShape(variable).size());
  }
  out << "variables: " << variables.size() << ", " << sum / sizeof(float) << " values, "
      << HumanBytes(sum) << "\n";
  for (size_t v = 0; v < variables.size(); ++v) {
    out << absl::StreamFormat("  %-*s  %-*s  %10s  %d %s%s\n", static_cast<int>(name_width),
                              variables[v].name(), static_cast<int>(shape_width),
                              VariableShape(variables[v]), HumanBytes(variable_bytes[v]), parts[v],
                              parts[v] == 1 ? "part" : "parts",
                              variables[v].trainable() ? "" : ", not trainable");
  }
}

void PrintAddress(const std::string& task, const std::string& address, std::ostream& out) {
  out << absl::StreamFormat("  %-14s %s\n", task, address.empty() ? "(not in this file)" : address);
}

// The partitions whose second holder a ps is.
struct CopiesOfPs {
  uint64_t partitions = 0, bytes = 0;
  uint64_t resident = 0;  // bytes with optimizer state
};

std::string TextOfCopies(const CopiesOfPs& copies) {
  if (copies.partitions == 0) return "";
  return absl::StrFormat("; copies of %d partitions: %d bytes, %d with optimizer state",
                         copies.partitions, copies.bytes, copies.resident);
}

}  // namespace

void PrintCluster(const Cluster& cluster, std::ostream& out) {
  out << "cluster:\n";
  PrintAddress("coordinator", cluster.coordinator, out);
  for (size_t i = 0; i < cluster.ps.size(); ++i) {
    PrintAddress(absl::StrCat("ps:", i), cluster.ps[i], out);
  }
  for (const auto& [index, address] : cluster.workers) {
    PrintAddress(absl::StrCat("worker:", index), address, out);
  }
  for (const auto& [index, address] : cluster.evaluators) {
    PrintAddress(absl::StrCat("evaluator:", index), address, out);
  }
  if (cluster.task) out << "  this task is " << cluster.task->ToString() << "\n";
}

absl::Status PrintRounds(const Job& job, std::optional<size_t> devices, std::ostream& out) {
  if (!job.guarantees.rounds()) return absl::OkStatus();
  if (!devices.has_value() && !job.guarantees.round_batches.has_value()) {
    out << "rounds: of as many batches of " << job.batch << " as the cluster names workers; ";
  } else {
    ASSIGN_OR_RETURN(const uint32_t batches, RoundBatchesOf(job, devices.value_or(0)));
    out << "rounds: of " << batches << (batches == 1 ? " batch of " : " batches of ") << job.batch
        << ", an effective batch of " << uint64_t{batches} * job.batch << "; ";
  }
  if (job.guarantees.sync()) {
    out << "each is one update. Updates, learning-rate schedules, `expire` and the end of the job "
           "count rounds; steps count batches\n";
    return absl::OkStatus();
  }
  out << "no gradient lacks more than " << *job.guarantees.staleness
      << " of them. The end of the job counts rounds; updates, learning-rate schedules, steps and "
         "`expire` count batches\n";
  return absl::OkStatus();
}

absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables,
                       const Holders& holders, uint64_t slots, std::ostream& out,
                       Problems& warnings) {
  const uint32_t ps_count = holders.count;
  ASSIGN_OR_RETURN(const std::vector<PartitionSpec> partitions,
                   PlacedPartitions(job, variables, holders));
  std::vector<uint64_t> bytes = PartitionBytes(variables, partitions);
  // A growing table begins without rows.
  for (size_t i = 0; i < partitions.size(); ++i) {
    if (IsGrowing(variables[partitions[i].variable()])) bytes[i] = 0;
  }
  PrintVariables(variables, partitions, bytes, out);

  std::vector<uint64_t> resident(ps_count);
  std::vector<std::vector<std::string>> names(ps_count);
  std::vector<CopiesOfPs> copies(ps_count);
  for (size_t i = 0; i < partitions.size(); ++i) {
    const bool trainable = variables[partitions[i].variable()].trainable();
    const uint64_t with_slots = bytes[i] * (1 + (trainable ? slots : 0));
    resident[partitions[i].ps()] += with_slots;
    names[partitions[i].ps()].push_back(partitions[i].name());
    for (const uint32_t second : partitions[i].copies()) {
      ++copies[second].partitions;
      copies[second].bytes += bytes[i];
      copies[second].resident += with_slots;
    }
  }
  const std::vector<uint64_t> of_ps = BytesOfPs(ps_count, bytes, partitions);
  out << "partitions: " << partitions.size() << " on " << ps_count
      << (!holders.nodes  ? " ps ("
          : ps_count == 1 ? " worker ("
                          : " workers (")
      << PartitionerText(job.partitioner) << "; " << job.partitioner.placement << ")\n";
  const uint64_t mean = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}) / bytes.size();
  if (partitions.size() >= kManyPartitions && mean < kSmallPartitionBytes) {
    warnings.Add("partitioner",
                 absl::StrCat("makes ", partitions.size(), " partitions of ", HumanBytes(mean),
                              " on average: naming, locking and counting each of them takes longer "
                              "than its arithmetic; have fewer shards"));
  }
  constexpr size_t kNamesMax = 20;  // a ps
  for (uint32_t ps = 0; ps < ps_count; ++ps) {
    const std::span<const std::string> some =
        std::span(names[ps]).first(std::min(kNamesMax, names[ps].size()));
    out << absl::StreamFormat("  %s:%d  %d bytes, %d with optimizer state, %d partitions%s%s%s%s\n",
                              holders.name(), ps, of_ps[ps], resident[ps], names[ps].size(),
                              names[ps].empty() ? "" : ": ", absl::StrJoin(some, ", "),
                              some.size() < names[ps].size() ? ", ..." : "",
                              TextOfCopies(copies[ps]));
  }
  out << absl::StreamFormat("imbalance (largest / mean): %.3f\n", Imbalance(of_ps));
  return absl::OkStatus();
}

namespace {

// The most memory of a row beside its numbers: id, last batch and count of steps in its header, and
// the index entry.
constexpr uint64_t kRowHeaderBytes = 16, kRowIndexBytes = 12;

// The number of checkpoints on disk at once.
struct OnDisk {
  uint64_t full = 0;  // one of them is being written
  uint64_t continuing = 0;
};
OnDisk CountOnDisk(const CheckpointSpec& spec) {
  const uint64_t of_chain = std::max<uint32_t>(spec.full_every, 1);
  // The newest `keep` checkpoints lie in at most so many chains, each of which is kept from its
  // full checkpoint on.
  const uint64_t chains = (spec.keep + of_chain - 2) / of_chain + 1;
  if (of_chain == 1) return {spec.keep + uint64_t{1}, 0};
  return {chains + 1, chains * (of_chain - 1)};
}

std::string TableKey(const VariableSpec& variable) {
  return absl::StrCat("tables.", variable.name().substr(0, variable.name().rfind('/')));
}

// The bytes of a row of a variable in a checkpoint, with those of its slots.
uint64_t StoredRowBytes(const VariableSpec& variable, const Optimizer& optimizer) {
  const uint64_t numbers =
      variable.trainable() ? RowNumbers(OptimizerFor(variable, optimizer), RowElements(variable))
                           : RowElements(variable);
  return numbers * sizeof(float) + (IsGrowing(variable) ? kRowHeaderBytes : 0);
}

// The bytes of a full checkpoint.
struct FullBytes {
  uint64_t fixed = 0;
  uint64_t rows = 0;  // at most, of the growing tables with `rows_max`
};
FullBytes FullBytesOf(std::span<const VariableSpec> variables, const Optimizer& optimizer) {
  FullBytes bytes;
  for (const VariableSpec& variable : variables) {
    const uint64_t row = StoredRowBytes(variable, optimizer);
    if (!IsGrowing(variable)) {
      bytes.fixed += (variable.shape_size() == 0 ? 1 : variable.shape(0)) * row;
      continue;
    }
    // What counts the appearances of ids without a row is whole in each checkpoint.
    const uint64_t shards = std::max<uint64_t>(variable.shape(0), 1);
    const uint64_t counted = variable.table().candidates();
    bytes.fixed +=
        shards * Admission::BytesOf(variable.table().admit_after(),
                                    (counted == 0 ? kCandidatesDefault : counted) / shards);
    bytes.rows += variable.table().rows_max() * row;
  }
  return bytes;
}

}  // namespace

uint64_t CheckpointBytes(const Job& job, std::span<const VariableSpec> variables,
                         const Optimizer& optimizer) {
  const auto [fixed, rows] = FullBytesOf(variables, optimizer);
  const auto [full, continuing] = CountOnDisk(job.checkpoint);
  return (full + continuing) * fixed + full * rows + continuing * rows / 4;
}

void PrintCheckpoints(const Job& job, std::span<const VariableSpec> variables,
                      const Optimizer& optimizer, std::ostream& out) {
  const auto [fixed, rows] = FullBytesOf(variables, optimizer);
  std::string more, notes;
  for (const VariableSpec& variable : variables) {
    if (!IsGrowing(variable)) continue;
    const uint64_t row = StoredRowBytes(variable, optimizer);
    absl::StrAppend(&more, more.empty() ? " and " : ", ", row, " for each row of ",
                    variable.name());
    if (variable.table().rows_max() != 0) continue;
    absl::StrAppend(
        &notes, "note: ", TableKey(variable), ".rows_max is missing: the table grows ",
        "with every new id, by ", row + kRowIndexBytes, " bytes of the ps' memory for ",
        "each row, which --memory-limit does not bound; \"expire\" removes rows that no ",
        "batch touches\n");
  }
  const auto [full, continuing] = CountOnDisk(job.checkpoint);
  out << "checkpoints: a full one takes " << HumanBytes(fixed) << more << "; at most " << full;
  if (continuing != 0) {
    out << " full ones and " << continuing
        << " that continue them, which have at most a quarter of "
        << "the rows of growing tables,";
  }
  out << " are on disk at once: " << HumanBytes((full + continuing) * fixed);
  if (!more.empty() && rows == 0) out << " and the rows of growing tables";
  if (rows != 0) out << ", and " << HumanBytes(full * rows + continuing * rows / 4) << " of rows";
  out << "\n" << notes;
}

}  // namespace paracord
