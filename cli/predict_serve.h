// `paracord predict --serve`: answers another process' requests for predictions, each with an
// answer, over its standard input and output (docs/serve.md). Blocking, in main's thread.
#pragma once

#include <istream>
#include <optional>
#include <ostream>

#include "absl/status/status.h"
#include "cli/predict_model.h"
#include "common/exit_code.h"
#include "config/job.h"

namespace paracord {

// A frame of more bytes is refused.
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 30;

// Serves until `in` ends. With neither a checkpoint nor weights only what a model would be given is
// answered. A request that is wrong is answered with an error and ends nothing; after an error here
// `code` is the one to leave with.
absl::Status ServePredictions(const PredictModelFlags& flags, std::istream& in, std::ostream& out,
                              std::ostream& notes, ExitCode& code);

}  // namespace paracord
