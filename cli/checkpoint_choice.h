// Chooses the checkpoint of a job's directory that a command works on, and reads its variables.
// Blocking, in main's thread; changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "storage/checkpoint.h"

namespace paracord {

// How often a command lists the checkpoints: a job that goes on may replace them by newer ones
// before they are read.
inline constexpr int kLooksMax = 10;

struct ChosenCheckpoint {
  std::string directory;
  Manifest manifest;
  std::vector<std::vector<float>> values;  // whole, in the order of manifest.variables
  VariableIds ids;                         // of growing tables
};

// Returns the checkpoint of `step`. Without a step it is the one that the job's restore_best has
// chosen, which `notes` says, or else the newest healthy one. A damaged checkpoint is refused by
// name in `notes`, and the one before it is taken, which `notes` says, too, as it does where the
// last one of a job that is done has been lost. NOT_FOUND: none is
// left; INVALID_ARGUMENT: there is no such directory. `dir` is absolute.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(Files& files, const std::string& dir,
                                                  std::optional<int64_t> step, std::ostream& notes);

inline constexpr char kLastIsLost[] =
    "the job is done, as summary.json says, but its last checkpoint is not there any more";
// Whether the summary in `dir` says that the job is done, while the newest of its checkpoints,
// `newest`, is sound and is not the one that the job ended with: that one has been lost.
bool LacksLastCheckpoint(Files& files, const std::string& dir, const CheckpointName& newest);

// Returns the newest checkpoint of the job in `dir`. It skips checkpoints whose damage shows
// without reading them whole.
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
