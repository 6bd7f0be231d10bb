#include "cli/left_columns.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {

std::vector<std::string> LeftColumnLines(const std::vector<ColumnLook>& left,
                                         const std::vector<std::string>& by_order) {
  std::vector<std::string> lines, words, numbers, sizes;
  for (const ColumnLook& column : left) {
    if (column.name.empty()) {
      lines.push_back(
          "the first column, which has no name: left out, since it numbers the rows, as to_csv of "
          "pandas writes its index; name it to use it");
    } else if (column.NumbersRows()) {
      lines.push_back(absl::StrCat(column.name,
                                   ": left out, since it has another whole number in each row; ",
                                   "an input of this name would take it"));
    } else if (column.is_number()) {
      numbers.push_back(column.name);
    } else {
      words.push_back(column.name);
      if (!column.HasFewWords()) continue;
      sizes.push_back(absl::StrCat(column.name, " has ", column.words.size()));
    }
  }
  if (!words.empty()) {
    lines.push_back(absl::StrCat(
        "not used: ", absl::StrJoin(words, ", "), ", since these are no numbers and no input has ",
        "their name; an input of a column's name takes its words: as strings, as ids for an ",
        "Embedding, or as vectors with one 1, of as many numbers as there are words",
        sizes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(sizes, ", "), ")")));
  }
  if (!numbers.empty() && by_order.empty()) {
    lines.push_back(absl::StrCat("not used: ", absl::StrJoin(numbers, ", "),
                                 ", since no input has their name"));
  } else if (!numbers.empty()) {
    lines.push_back(absl::StrCat(
        "warning: the file has more columns of numbers than the model's inputs take: ",
        absl::StrJoin(by_order, ", "), " were taken because they come first, and ",
        absl::StrJoin(numbers, ", "), " not; choose in \"features\", or name inputs like columns"));
  }
  return lines;
}

}  // namespace paracord
