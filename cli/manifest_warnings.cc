#include "cli/manifest_warnings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/batch_needs.h"
#include "cli/plan.h"
#include "cli/quantity.h"
#include "cli/train_checks.h"
#include "common/human_bytes.h"
#include "config/job_data.h"
#include "config/program_spec.h"
#include "data/data_source.h"
#include "keras/build.h"
#include "store/optimizer.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

constexpr double kGibibyte = 1 << 30;

// Returns bytes as a quantity of Kubernetes, rounded up: "7Gi".
std::string AsQuantity(double bytes) {
  if (bytes < kGibibyte) return absl::StrCat(std::ceil(bytes / (1 << 20)), "Mi");
  return absl::StrCat(std::ceil(bytes / kGibibyte), "Gi");
}

// The files that a pod reads, by key of the job.
std::vector<SourcePath> PathsInPods(const Job& job) {
  std::vector<SourcePath> paths;
  const auto add = [&](const char* key, const DataSpec& spec) {
    for (SourcePath& path : PathsOf(spec)) {
      paths.push_back({absl::StrCat("data.", key, ".", path.key), std::move(path.path)});
    }
  };
  add("train", job.train);
  if (job.test.has_value()) add("test", *job.test);
  if (job.predict.has_value()) add("predict", *job.predict);
  if (job.initial_weights.file.has_value()) {
    paths.push_back({"initial_weights", *job.initial_weights.file});
  }
  return paths;
}

void WarnOfFiles(const Job& job, const std::string& directory, const ManifestOptions& options,
                 std::vector<std::string>& warnings) {
  const std::string prefix = directory == "/" ? directory : directory + "/";
  bool data = false;
  std::string outside;
  for (const SourcePath& read : PathsInPods(job)) {
    if (absl::StrContains(read.path, "://")) continue;
    const bool relative = absl::StartsWith(read.path, prefix);
    if (!relative && !absl::StartsWith(read.path, "/data/")) {
      if (outside.empty()) outside = absl::StrCat(read.key, ": ", read.path);
      continue;
    }
    data = true;
    if (read.key != "initial_weights" || options.data.empty()) continue;
    const std::string below =
        relative ? read.path.substr(prefix.size()) : read.path.substr(sizeof("/data/") - 1);
    warnings.push_back(absl::StrCat("initial_weights are read from /data/", below, ": the claim ",
                                    options.data, " has to hold ", below, " beside the data"));
  }
  if (options.data.empty() && data) {
    warnings.push_back(
        "the job reads files below /data, which the image has to hold: --data CLAIM mounts them");
  }
  if (outside.empty()) return;
  warnings.push_back(absl::StrCat(
      outside, " is outside of /data, and nothing mounts it: the image has to hold it, or --data ",
      "CLAIM mounts a file whose path is relative to the job file"));
}

void WarnOfTables(const Job& job, const ManifestOptions& options,
                  std::vector<std::string>& warnings) {
  for (const auto& [layer, table] : job.tables.by_layer) {
    if (!table.growing || table.rows_max != 0) continue;
    warnings.push_back(absl::StrCat("tables.", layer, ".rows_max is missing: a ",
                                    options.ps == 0 ? "worker" : "ps", " whose table outgrows ",
                                    "its memory limit is killed again and again"));
  }
}

void WarnOfMemory(Files& files, const Job& job, const ManifestOptions& options,
                  std::vector<std::string>& warnings) {
  const bool nodes = options.ps == 0;
  const std::string& given = nodes ? options.memory : options.ps_memory;
  const std::string limit = given.empty() ? kMemoryDefault : given;
  const double pod = ParseQuantity(limit).value_or(0);
  const Holders holders{.count = static_cast<uint32_t>(nodes ? options.workers : options.ps),
                        .nodes = nodes};
  // A daemon takes nine tenths of its pod's limit.
  const auto budget = static_cast<uint64_t>(std::min(pod * 0.9, 1e18));
  const absl::StatusOr<BatchNeeds> needs = NeedsIn(files, job, holders, budget);
  if (!needs.ok() || CheckNeeds(*needs, budget).ok()) return;
  const uint64_t enough = EnoughMemory(*needs);
  if (enough <= budget) return;  // a limit on the form of requests, of which `validate` tells
  warnings.push_back(
      absl::StrCat("a ", holders.name(), " needs ", HumanBytes(enough),
                   " for its variables, their optimizer's state and a batch, and a pod of ", limit,
                   " leaves it nine tenths: ", nodes ? "--memory " : "--ps-memory ",
                   AsQuantity(static_cast<double>(enough) / 0.9), " is enough"));
}

// Returns the variables of a Keras model; none if they depend on data that cannot be read here.
std::vector<VariableSpec> VariablesIn(Files& files, const Job& job) {
  if (IsProgram(job.model)) return {};
  std::vector<VariableSpec> variables = DeclaredVariables(job, MakeCpuOps(/*threads=*/1));
  if (!variables.empty()) return variables;
  const auto source = OpenDataSource(files, job.train);
  if (!source.ok()) return {};
  const auto program = BuildKerasProgram(job, (*source)->schema(), MakeCpuOps(/*threads=*/1));
  if (!program.ok()) return {};
  return {(*program)->variables().begin(), (*program)->variables().end()};
}

}  // namespace

std::vector<std::string> ManifestWarnings(Files& files, const Job& job,
                                          const std::string& directory,
                                          const ManifestOptions& options) {
  std::vector<std::string> warnings;
  if (IsProgram(job.model) && !IsStableHlo(job.model) && !options.programs) {
    warnings.push_back("the model is a program, which workers refuse without --allow-programs");
  }
  WarnOfFiles(job, directory, options, warnings);
  WarnOfTables(job, options, warnings);
  WarnOfMemory(files, job, options, warnings);
  if (options.spot && options.gpus > 0) {
    warnings.push_back(absl::StrCat(
        "--spot with --gpus has no autoscaler, since the use of processors does not tell how busy ",
        "GPUs are: `kubectl scale deployment/", options.name, "-worker --replicas N` changes the ",
        "number of workers"));
  } else if (options.spot) {
    warnings.push_back(absl::StrCat("the autoscaler needs metrics-server in the cluster, without ",
                                    "which there stay ", options.workers, " workers"));
  }
  return warnings;
}

std::vector<std::string> StorageWarnings(Files& files, const Job& job,
                                         const ManifestOptions& options) {
  const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(job.optimizer);
  const std::vector<VariableSpec> variables = VariablesIn(files, job);
  if (!optimizer.ok() || variables.empty()) return {};
  const std::string size = options.storage_size.empty() ? kStorageDefault : options.storage_size;
  const auto bytes = static_cast<double>(CheckpointBytes(job, variables, *optimizer));
  if (bytes <= ParseQuantity(size).value_or(0)) return {};
  return {absl::StrCat("the checkpoints that are kept at once take ",
                       HumanBytes(static_cast<uint64_t>(bytes)), ", and the claim has ", size,
                       ": --storage-size ", AsQuantity(bytes * 1.1), " is enough, or a smaller ",
                       "checkpoint.keep")};
}

}  // namespace paracord
