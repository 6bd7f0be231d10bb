// Says why `paracord init` gives columns of a CSV file to no input of the model, and by what change
// of the model or the job they would be used. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/csv_look.h"

namespace paracord {

// Returns lines for people. `left` are the columns that no input takes. `by_order` are the names of
// columns of numbers that inputs with other names take, because these columns come first in the
// file. If there are such columns, the line about columns of numbers in `left` is a warning,
// because an input may have taken a wrong column; columns that only number the rows do not count.
std::vector<std::string> LeftColumnLines(const std::vector<ColumnLook>& left,
                                         const std::vector<std::string>& by_order);

}  // namespace paracord
