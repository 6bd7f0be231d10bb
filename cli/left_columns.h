// Says why `paracord init` gives columns of a CSV file to no input, and what would take them. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/csv_look.h"

namespace paracord {

// Returns lines for people. `by_order` are the columns of numbers that inputs of other names took
// because they come first; if there are some, numbers that are left over are a warning.
std::vector<std::string> LeftColumnLines(const std::vector<ColumnLook>& left,
                                         const std::vector<std::string>& by_order);

}  // namespace paracord
