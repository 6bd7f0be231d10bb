// Chooses the checkpoint that a command works on from a job's directory, and reads its variables.
// Blocking, in main's thread; changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "storage/checkpoint.h"
#include "storage/checkpoint_rows.h"
#include "worker/scored_checkpoint.h"

namespace paracord {

// How often a command lists the checkpoints: a running job may replace them before they are read.
inline constexpr int kLooksMax = 10;

struct ChosenCheckpoint {
  std::string directory;
  Manifest manifest;
  std::vector<std::vector<float>> values;  // complete, in the order of manifest.variables
  VariableIds ids;                         // for growing tables
  std::unique_ptr<CheckpointRows> rows;    // rows of tables left out of `values`; null: none are

  StoredVariables stored() const { return {manifest.variables, values, ids, rows.get()}; }
};

// Returns the checkpoint of `step`; without a step, the one that the job's restore_best chose, or
// else the newest healthy one. `notes` names a choice by restore_best, each damaged checkpoint that
// was skipped for an earlier one, and the loss of a finished job's last checkpoint. NOT_FOUND: no
// checkpoint is left; INVALID_ARGUMENT: the directory does not exist. `dir` is absolute. If the
// values would take more than `values_bytes_max`, rows of tables are left in the files.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(Files& files, const std::string& dir,
                                                  std::optional<int64_t> step, std::ostream& notes,
                                                  uint64_t values_bytes_max = UINT64_MAX);
inline constexpr char kValuesLimitHelp[] =
    "what the command may hold in memory, such as 2GiB: where the values of the checkpoint would "
    "take more than half, rows of tables are read from its files; default: nine tenths of the "
    "machine's";
// Returns the bytes that the values of a checkpoint may take in a command with this --memory-limit,
// which by default is nine tenths of the machine's memory: half of it. INVALID_ARGUMENT: the text
// is no size, or too small a one.
absl::StatusOr<uint64_t> ValuesBytesMax(const std::string& memory_limit);

inline constexpr char kLastIsLost[] =
    "the job is done, as summary.json says, but its last checkpoint is not there any more";
// Whether the summary in `dir` says that the job is done although `newest`, its newest checkpoint,
// is sound but was not taken at the job's end: the last checkpoint has been lost.
bool LacksLastCheckpoint(Files& files, const std::string& dir, const CheckpointName& newest);

// Returns the newest checkpoint of the job in `dir`, skipping damage that shows without reading
// whole files.
std::optional<Manifest> NewestCheckpoint(Files& files, const std::string& dir);

// Says how far a checkpoint is: "epoch 3, batch 37 of 938". Epochs count from 1, as train counts
// them; a checkpoint after an epoch's last batch still belongs to that epoch.
std::string PositionText(const Manifest& manifest);

// Writes an age for people: "12 s", "3.5 min", "2.1 h", "4.0 days". A negative one is 0.
std::string AgeText(int64_t ms);

// INVALID_ARGUMENT names the first variable that model and checkpoint have in different shapes, and
// both shapes.
absl::Status CheckShapes(std::span<const VariableSpec> model,
                         std::span<const VariableSpec> checkpoint);

// The exit code for an error of ChooseCheckpoint.
ExitCode ExitCodeOfChoice(const absl::Status& status);

}  // namespace paracord
