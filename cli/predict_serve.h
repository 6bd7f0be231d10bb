// `paracord predict --serve`: answers each request of another process for predictions over standard
// input and output (docs/serve.md). Blocking, in main's thread.
#pragma once

#include <istream>
#include <optional>
#include <ostream>

#include "absl/status/status.h"
#include "cli/predict_model.h"
#include "common/exit_code.h"
#include "config/job.h"

namespace paracord {

// The most bytes of a request's frame.
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 30;

// Serves until `in` ends. A wrong request is answered with an error, and serving goes on; but a
// frame that is larger than kFrameBytesMax or incomplete ends the serving with an error. If `flags`
// name neither a checkpoint nor weights, only requests for the inputs that the model would get are
// answered. `notes` gets lines for people. After an error that ends the serving, `code` is the exit
// code.
absl::Status ServePredictions(const PredictModelFlags& flags, std::istream& in, std::ostream& out,
                              std::ostream& notes, ExitCode& code);

}  // namespace paracord
