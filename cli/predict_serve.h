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

// The largest frame; a larger one is refused.
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 30;

// Serves until `in` ends. With neither a checkpoint nor weights, requests are answered with the
// inputs that the model would get. A wrong request is answered with an error, and serving goes on.
// After an error of the process itself, `code` is the exit code.
absl::Status ServePredictions(const PredictModelFlags& flags, std::istream& in, std::ostream& out,
                              std::ostream& notes, ExitCode& code);

}  // namespace paracord
