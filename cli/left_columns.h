// Says why `paracord init` gives columns of a CSV file to no input, and what would take them. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/csv_look.h"

namespace paracord {

// Returns lines for people. `left` are the columns that no input takes. `by_order` names the
// columns of numbers that were given to inputs of other names because they come first; unless it is
// empty, numbers in `left` are a warning.
std::vector<std::string> LeftColumnLines(const std::vector<ColumnLook>& left,
                                         const std::vector<std::string>& by_order);

}  // namespace paracord
