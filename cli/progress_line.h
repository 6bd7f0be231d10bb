// The one line that shows the progress of a running job, and other text, laid out for the width of
// a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the line of a status for `columns` columns, of which the last one stays free. "loss now"
// is the loss of the last batches, while an epoch's own line has the mean of the epoch. Metrics are
// those of the epoch's batches so far. Fields that have no value yet are left out. Where not all
// fit, workers, the bar, percent, samples a second, time left, metrics, the note and the loss go,
// in this order; the epoch always stays. A bar takes what is
// left. Without a limit (0 columns) there is none. `note` says what the numbers do not,
// such as whom the job waits for; `rate` is whether samples a second and time left are true now.
std::string ProgressLine(const nlohmann::json& status, const std::string& note, bool rate,
                         size_t columns);

// The length that a terminal shows: bytes that continue a UTF-8 character take no column.
size_t ColumnsOf(const std::string& text);

// Breaks lines between words so that each leaves the last of `columns` columns free; what goes on
// in a new line is indented. A longer word stays whole.
std::string WrapWords(const std::string& text, size_t columns);

// How long something takes, in two units at most: "45 s", "12 min", "3 h 20 min", "2 d 5 h".
std::string TimeText(double seconds);

// A whole number in groups of three digits: "142,804".
std::string Grouped(double number);

}  // namespace paracord
