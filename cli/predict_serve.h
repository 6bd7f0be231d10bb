// `paracord predict --serve`: another process sends requests for predictions to standard input and
// gets answers from standard output (docs/serve.md). Blocking, in main's thread.
#pragma once

#include <istream>
#include <optional>
#include <ostream>

#include "absl/status/status.h"
#include "cli/predict_model.h"
#include "common/exit_code.h"
#include "config/job.h"

namespace paracord {

// The most bytes of a request.
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 30;

// Serves until `in` ends. The answer to a wrong request is an error, and serving goes on. But a
// request that is larger than kFrameBytesMax or incomplete ends the serving with an error, and so
// does a failure to write to `out`. If `flags` name neither a checkpoint nor weights, only requests
// for the inputs that the model would get are answered. `notes` gets lines for people. If
// ServePredictions fails, `code` is the exit code.
absl::Status ServePredictions(const PredictModelFlags& flags, std::istream& in, std::ostream& out,
                              std::ostream& notes, ExitCode& code);

}  // namespace paracord
