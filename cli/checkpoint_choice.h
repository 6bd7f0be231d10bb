// Chooses, in a job's directory, the checkpoint that a command works on, and reads its variables.
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

// The most times that a command lists a job's checkpoints. A command lists them again if a listed
// checkpoint is gone: a running job removes old ones.
inline constexpr int kLooksMax = 10;

struct ChosenCheckpoint {
  std::string directory;
  Manifest manifest;
  // The values of each variable, in the order of manifest.variables; empty for a table in `rows`.
  std::vector<std::vector<float>> values;
  VariableIds ids;  // ids of the rows of growing tables
  // Reads the tables whose values were left in the files; null: `values` has all variables.
  std::unique_ptr<CheckpointRows> rows;

  StoredVariables stored() const { return {manifest.variables, values, ids, rows.get()}; }
};

// Returns a checkpoint of the job in `dir`, an absolute path: with `step`, that of the step;
// without `step`, the best one if the finished job's stop_when.restore_best chose one, else the
// newest one. Skips checkpoints that cannot be used and, without `step`, checkpoints that are not
// healthy (some values are not finite). `notes` gets lines for people: a choice by restore_best,
// why a checkpoint is skipped, and that the last checkpoint of a finished job is missing.
// NOT_FOUND: no checkpoint is left. INVALID_ARGUMENT: `dir` cannot be listed. If the values would
// take more than `values_bytes_max`, rows of tables are left in the files.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(Files& files, const std::string& dir,
                                                  std::optional<int64_t> step, std::ostream& notes,
                                                  uint64_t values_bytes_max = UINT64_MAX);
inline constexpr char kValuesLimitHelp[] =
    "what the command may hold in memory, such as 2GiB: where the values of the checkpoint would "
    "take more than half, rows of tables are read from its files; default: nine tenths of the "
    "machine's";
// Returns the bytes that a checkpoint's values may take in a command: half of --memory-limit or, if
// that is "", half of nine tenths of the machine's memory. INVALID_ARGUMENT: the text is no size,
// or too small a one.
absl::StatusOr<uint64_t> ValuesBytesMax(const std::string& memory_limit);

inline constexpr char kLastIsLost[] =
    "the job is done, as summary.json says, but its last checkpoint is not there any more";
// Whether a finished job's last checkpoint has been lost: `dir`/summary.json says that the job is
// done, but `newest`, its newest checkpoint, can be read and is not of the job's end.
bool LacksLastCheckpoint(Files& files, const std::string& dir, const CheckpointName& newest);

// Returns the manifest of the newest checkpoint of the job in `dir`. Skips checkpoints whose
// manifest cannot be read, or whose damage shows without reading whole files. Nullopt: no
// checkpoint is left, or they cannot be listed.
std::optional<Manifest> NewestCheckpoint(Files& files, const std::string& dir);

// Says how far the job was at a checkpoint: "epoch 3, batch 37 of 938". Epochs count from 1. A
// checkpoint right after an epoch's last batch still belongs to that epoch.
std::string PositionText(const Manifest& manifest);

// Writes an age for people: "12 s", "3.5 min", "2.1 h", "4.0 days". A negative age counts as 0.
std::string AgeText(int64_t ms);

// INVALID_ARGUMENT names the first variable that the model and the checkpoint have in different
// shapes, and both shapes. Variables that only one of them has are no error.
absl::Status CheckShapes(std::span<const VariableSpec> model,
                         std::span<const VariableSpec> checkpoint);

// The exit code for an error of ChooseCheckpoint.
ExitCode ExitCodeOfChoice(const absl::Status& status);

}  // namespace paracord
