#include "cli/checkpoint_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/train_checks.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "coordinator/core/job_state.h"
#include "storage/chain.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

// If `dir` is not a job's directory, says where the job is: `paracord.fit(..., dir=D)` trains in
// D/run.
std::string HoldsNone(Files& files, const std::string& dir, const std::string& checkpoints) {
  const std::string below = dir + "/run";
  const auto names = ListCheckpoints(files, CheckpointsDirectory(below));
  if (!names.ok() || names->empty()) return absl::StrCat(checkpoints, " holds no checkpoint");
  return absl::StrCat(dir, " is no job's directory, and ", below, " is one: name that");
}

std::string NotThere(const std::string& checkpoints, const std::vector<CheckpointName>& names,
                     std::optional<int64_t> step, bool refused) {
  if (refused) return absl::StrCat(checkpoints, ": no other checkpoint can be used");
  std::string text = absl::StrCat(checkpoints, " holds no checkpoint of step ", step.value_or(0));
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "; there is step " : ", ", names[i].step);
  }
  return text;
}

// With `any` a checkpoint may have values that are not finite.
absl::StatusOr<ChosenCheckpoint> ReadCheckpoint(Files& files, const std::string& directory,
                                                bool any, uint64_t values_bytes_max,
                                                KnownDamage& known) {
  ChosenCheckpoint chosen;
  chosen.directory = directory;
  ASSIGN_OR_RETURN(chosen.manifest, ReadManifest(files, directory));
  if (!any && !chosen.manifest.healthy()) {
    return absl::FailedPreconditionError(
        "it is not healthy (an update gave a value that is not finite); --step asks for it");
  }
  ASSIGN_OR_RETURN(const std::vector<bool> left,
                   TablesToLeave(files, directory, chosen.manifest, values_bytes_max));
  if (std::ranges::count(left, true) > 0) {
    chosen.rows = std::make_unique<CheckpointRows>(chosen.manifest, left);
  }
  ASSIGN_OR_RETURN(chosen.values, ReadVariables(files, directory, chosen.manifest, &chosen.ids,
                                                known, chosen.rows.get()));
  return chosen;
}

// Moves the checkpoint that a finished job's restore_best chose to the front, if it still exists.
void PutBestFirst(Files& files, const std::string& checkpoints, std::vector<CheckpointName>& names,
                  std::ostream& notes) {
  if (names.empty()) return;
  const auto newest = ReadManifest(files, checkpoints + "/" + names.front().ToString());
  if (!newest.ok() || !newest->complete || !newest->summary.is_object()) return;
  const nlohmann::json best = newest->summary.value("best", nlohmann::json::object());
  if (!best.is_object() || !best.contains("checkpoint") || !best["checkpoint"].is_string()) return;
  const auto found = std::find_if(names.begin(), names.end(), [&](const CheckpointName& name) {
    return name.ToString() == best["checkpoint"];
  });
  if (found == names.end() || found == names.begin()) return;
  std::rotate(names.begin(), found, found + 1);
  notes << "using the best checkpoint, " << names.front().ToString() << " of epoch "
        << TextOf(best.value("epoch", nlohmann::json())) << " ("
        << best.value("metric", std::string()) << " "
        << TextOf(best.value("value", nlohmann::json())) << "), as restore_best asks\n";
}

}  // namespace

absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(Files& files, const std::string& dir,
                                                  std::optional<int64_t> step, std::ostream& notes,
                                                  uint64_t values_bytes_max) {
  const absl::Status listed = files.List(dir).status();
  if (!listed.ok()) return absl::InvalidArgumentError(listed.message());
  const std::string checkpoints = CheckpointsDirectory(dir);
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, ListCheckpoints(files, checkpoints));
  if (!step.has_value()) PutBestFirst(files, checkpoints, names, notes);
  KnownDamage known;
  bool refused = false;
  if (!step.has_value() && !names.empty() && LacksLastCheckpoint(files, dir, names.front())) {
    notes << kLastIsLost << "\n";
    refused = true;
  }
  int looks = 1;
  for (size_t next = 0; next < names.size();) {
    const CheckpointName name = names[next++];
    if (step.has_value() && name.step != static_cast<uint64_t>(*step)) continue;
    absl::StatusOr<ChosenCheckpoint> chosen =
        ReadCheckpoint(files, checkpoints + "/" + name.ToString(), /*any=*/step.has_value(),
                       values_bytes_max, known);
    if (chosen.ok()) {
      if (refused) notes << "using checkpoint " << name.ToString() << ", the one before\n";
      return chosen;
    }
    if (looks < kLooksMax && !IsCheckpoint(files, checkpoints + "/" + name.ToString())) {
      ++looks;
      next = 0;
      ASSIGN_OR_RETURN(names, ListCheckpoints(files, checkpoints));
      continue;
    }
    notes << "checkpoint " << name.ToString() << " is refused: " << chosen.status().message()
          << "\n";
    refused = true;
  }
  return absl::NotFoundError(names.empty() ? HoldsNone(files, dir, checkpoints)
                                           : NotThere(checkpoints, names, step, refused));
}

absl::StatusOr<uint64_t> ValuesBytesMax(const std::string& memory_limit) {
  ASSIGN_OR_RETURN(const uint64_t limit, MemoryLimitOf(memory_limit, Holders()));
  return limit / 2;
}

bool LacksLastCheckpoint(Files& files, const std::string& dir, const CheckpointName& newest) {
  const absl::StatusOr<std::string> text = files.ReadWhole(absl::StrCat(dir, "/", kSummaryName));
  const nlohmann::json summary = text.ok() ? JsonOf(*text) : nlohmann::json();
  if (!summary.is_object() || summary.value("status", nlohmann::json()) != "done") return false;
  const auto manifest = ReadManifest(files, CheckpointsDirectory(dir) + "/" + newest.ToString());
  return manifest.ok() && !manifest->complete;
}

std::optional<Manifest> NewestCheckpoint(Files& files, const std::string& dir) {
  const std::string checkpoints = CheckpointsDirectory(dir);
  const auto names = ListCheckpoints(files, checkpoints);
  if (!names.ok()) return std::nullopt;
  for (const CheckpointName& name : *names) {
    const std::string directory = checkpoints + "/" + name.ToString();
    if (!FindObviousDamage(files, directory).empty()) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(files, directory);
    if (manifest.ok()) return *std::move(manifest);
  }
  return std::nullopt;
}

std::string PositionText(const Manifest& manifest) {
  std::optional<uint64_t> least;
  for (const ManifestPartition& partition : manifest.partitions) {
    if (!manifest.variables[partition.spec.variable()].trainable()) continue;
    const uint64_t entered = partition.applied + partition.rejected;
    least = std::min(least.value_or(entered), entered);
  }
  const uint64_t each = BatchesPerEpoch(manifest.plan);
  if (each == 0) return "";
  const uint64_t done = least.value_or(0);
  const uint64_t before = done == 0 ? 0 : (done - 1) / each;  // whole epochs
  return absl::StrCat("epoch ", before + 1, ", batch ", done - before * each, " of ", each);
}

std::string AgeText(int64_t ms) {
  // A checkpoint of a host whose clock is ahead has a negative age.
  const double seconds = static_cast<double>(std::max<int64_t>(ms, 0)) / 1000;
  if (seconds < 120) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.1f min", seconds / 60);
  if (seconds < 172800) return absl::StrFormat("%.1f h", seconds / 3600);
  return absl::StrFormat("%.1f days", seconds / 86400);
}

absl::Status CheckShapes(std::span<const VariableSpec> model,
                         std::span<const VariableSpec> checkpoint) {
  const auto shape_of = [](const VariableSpec& variable) {
    return std::vector<uint64_t>(variable.shape().begin(), variable.shape().end());
  };
  for (const VariableSpec& variable : model) {
    const auto found = std::ranges::find_if(
        checkpoint, [&](const VariableSpec& other) { return other.name() == variable.name(); });
    if (found == checkpoint.end() || shape_of(*found) == shape_of(variable)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint's variable ", variable.name(), " has shape ", ShapeText(shape_of(*found)),
        ", and the model's is ", ShapeText(shape_of(variable)),
        ": the job has another model or other data than the one that was trained"));
  }
  return absl::OkStatus();
}

ExitCode ExitCodeOfChoice(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? ExitCode::kConfiguration : ExitCode::kNoCheckpoint;
}

}  // namespace paracord
