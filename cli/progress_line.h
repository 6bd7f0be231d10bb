// The one line that shows the progress of a running job, and other text, laid out for the width of
// a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the line for a status in `columns` columns, the last of which stays free. "loss now" is
// the loss of the last batches, while an epoch's own line has the mean of the epoch. Metrics are
// those of the epoch's batches so far. Fields without a value are left out. If the fields do not
// all fit, they are dropped in this order: workers, the bar, percent, samples a second, time left,
// metrics, the note, the loss; the epoch always stays. A bar takes the remaining columns; without a
// limit (0 columns) there is none. `note` says what the numbers do not, such as the process for
// which the job waits; `rate` is whether samples a second and time left are up to date.
std::string ProgressLine(const nlohmann::json& status, const std::string& note, bool rate,
                         size_t columns);

// The columns that a terminal needs: bytes that continue a UTF-8 character take none.
size_t ColumnsOf(const std::string& text);

// Breaks lines between words so that each line leaves the last of `columns` columns free;
// continuation lines are indented. A longer word stays whole.
std::string WrapWords(const std::string& text, size_t columns);

// A duration in at most two units: "45 s", "12 min", "3 h 20 min", "2 d 5 h".
std::string TimeText(double seconds);

// A whole number in groups of three digits: "142,804".
std::string Grouped(double number);

}  // namespace paracord
