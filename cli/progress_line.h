// The line that shows a running job's progress, and other texts, laid out for a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the line for a status in `columns` columns, the last of which stays free. "loss now" is
// the loss of the last batches (the line after an epoch has the mean of the epoch). Metrics are
// means over the epoch's batches so far. Fields without a value are left out. If the fields do not
// all fit, they are dropped in this order: workers, the bar, percent, samples a second, time left,
// metrics, the note, the loss; the epoch always stays. The bar has at most 40 columns besides its
// frame; without a limit (0 columns) there is no bar. `note` is a text for people, such as the
// process for which the job waits; a long note may be cut. If `rate` is false, samples a second and
// time left are out of date and left out.
std::string ProgressLine(const nlohmann::json& status, const std::string& note, bool rate,
                         size_t columns);

// Returns how many columns a text takes on a terminal: one for each character of UTF-8.
size_t ColumnsOf(const std::string& text);

// Breaks lines between words so that each line leaves the last of `columns` columns free. The
// second and later lines of a broken line are indented. A word that is longer than a line stays
// whole.
std::string WrapWords(const std::string& text, size_t columns);

// Returns a duration in at most two units: "45 s", "12 min", "3 h 20 min", "2 d 5 h"; "?" if it is
// negative, NaN or above 1e9 s.
std::string TimeText(double seconds);

// Returns the rounded number, with its digits in groups of three: "142,804".
std::string Grouped(double number);

}  // namespace paracord
