#include "keras/model_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paracord {

std::string SummaryOf(const std::vector<LayerRow>& rows) {
  size_t wide = 5, tall = 5;
  for (const LayerRow& row : rows) {
    wide = std::max(wide, row.name.size() + row.class_name.size() + 3);
    tall = std::max(tall, ShapeName(row.output).size());
  }
  wide = std::min<size_t>(wide, 60);
  std::string text;
  const auto line = [&](const std::string& layer, const std::string& shape,
                        const std::string& parameters, const std::string& work,
                        const std::string& bytes) {
    absl::StrAppend(&text,
                    absl::StrFormat("%-*s  %-*s  %12s  %16s  %12s\n", static_cast<int>(wide), layer,
                                    static_cast<int>(tall), shape, parameters, work, bytes));
  };
  line("layer", "shape", "parameters", "multiply-adds", "bytes");
  LayerRow total;
  for (const LayerRow& row : rows) {
    line(absl::StrCat(row.name, " (", row.class_name, ")"), ShapeName(row.output),
         absl::StrCat(row.parameters), absl::StrCat(row.multiply_adds),
         absl::StrCat(4 * row.floats));
    total.parameters += row.parameters;
    total.multiply_adds += row.multiply_adds;
    total.floats += row.floats;
  }
  line("all, of one example", "", absl::StrCat(total.parameters), absl::StrCat(total.multiply_adds),
       absl::StrCat(4 * total.floats));
  return text;
}

}  // namespace paracord
