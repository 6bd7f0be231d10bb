// Which checkpoint of a job's directory a command works on, and its variables. Blocking, in main's
// thread; changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "storage/checkpoint.h"

namespace paracord {

// How often a command looks at what checkpoints there are: those of a job that goes on may have
// been replaced by newer ones before they are read.
inline constexpr int kLooksMax = 10;

struct ChosenCheckpoint {
  std::string directory;
  Manifest manifest;
  std::vector<std::vector<float>> values;  // whole, in the order of manifest.variables
};

// The newest checkpoint of `step`, or without one the newest healthy one, or the one that the job's
// restore_best has chosen, which `notes` says. What is damaged is
// refused by name in `notes`, and the one before it is taken, which `notes` says too. NOT_FOUND:
// none is left; INVALID_ARGUMENT: there is no such directory. `dir` is absolute.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(Files& files, const std::string& dir,
                                                  std::optional<int64_t> step, std::ostream& notes);

// Of a job in `dir`; what is damaged is passed over, as far as that is seen without reading it all.
std::optional<Manifest> NewestCheckpoint(Files& files, const std::string& dir);

// How far it is: "epoch 3, batch 37 of 938". Epochs count from 1, as train does; the last batch of
// one is its end.
std::string PositionText(const Manifest& manifest);

// "12 s", "3.5 min", "2.1 h", "4.0 days".
std::string AgeText(int64_t ms);

// Of an error of ChooseCheckpoint.
ExitCode ExitCodeOfChoice(const absl::Status& status);

}  // namespace paracord
