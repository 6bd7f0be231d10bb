// The one line that shows the progress of a running job, and other text, laid out for the width of
// a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the line for a status in `columns` columns, the last of which stays free. "loss now" is
// the loss of the last batches, while the line that is printed after an epoch has the mean of the
// epoch. Metrics are means over the epoch's batches so far. Fields without a value are left out. If
// the fields do not all fit, they are dropped in this order: workers, the bar, percent, samples a
// second, time left, metrics, the note, the loss; the epoch always stays. A bar takes the remaining
// columns, 40 at most besides its frame; without a limit (0 columns) there is no bar. `note` says
// what the numbers do not, such as the process for which the job waits; it may be cut. Without
// `rate`, samples a second and time left are out of date and left out.
std::string ProgressLine(const nlohmann::json& status, const std::string& note, bool rate,
                         size_t columns);

// Returns the columns that a text takes on a terminal: one for each character of UTF-8.
size_t ColumnsOf(const std::string& text);

// Breaks lines between words so that each line leaves the last of `columns` columns free;
// continuation lines are indented. A word that is longer than a line stays whole.
std::string WrapWords(const std::string& text, size_t columns);

// Returns a duration in at most two units: "45 s", "12 min", "3 h 20 min", "2 d 5 h"; "?" if it is
// negative, NaN or above 1e9 s.
std::string TimeText(double seconds);

// Returns a rounded number with its digits in groups of three: "142,804".
std::string Grouped(double number);

}  // namespace paracord
