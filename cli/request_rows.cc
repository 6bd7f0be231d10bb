#include "cli/request_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "data/csv_text.h"

namespace paracord {
namespace {

using nlohmann::json;

// Replaces the number of a column by its name; without names by the number's text.
void NameColumn(const json& names, json& column) {
  if (column.is_array()) {  // of a cross
    for (json& each : column) NameColumn(names, each);
  } else if (column.is_number_unsigned()) {
    const size_t number = column.get<size_t>();
    if (names.empty()) {
      column = std::to_string(number);
    } else if (number < names.size()) {
      column = names[number];
    }
  }
}

void NameColumns(const json& names, json& options) {
  for (const char* key : {"features", "label", "weight"}) {
    if (!options.contains(key)) continue;
    json& value = options[key];
    if (!value.is_array()) value = json::array({std::move(value)});
    for (json& entry : value) {
      if (!entry.is_object()) NameColumn(names, entry);
      for (const char* columns : {"column", "columns"}) {
        if (entry.is_object() && entry.contains(columns)) NameColumn(names, entry[columns]);
      }
    }
  }
}

bool HasNumbersAlone(std::string_view text) {
  CsvFields header;
  if (!ParseCsvRecord(text, /*at_end=*/true, CsvDialect(), header).ok()) return false;
  return std::ranges::all_of(header.values, [](std::string_view name) {
    size_t number = 0;
    return absl::SimpleAtoi({name.data(), name.size()}, &number);
  });
}

}  // namespace

RequestRows::RequestRows(DataSpec files) : rows_(std::move(files)) {
  json& options = rows_.options;
  const bool header = options.value("header", json()) != json(false);
  json names = options.value("columns", json());
  if (!names.is_array()) names = names.is_string() ? json::array({names}) : json::array();
  for (const char* key : {"header", "columns", "delimiter", "quote", "escape", "skip_lines"}) {
    options.erase(key);
  }
  if (header) return;
  if (!names.empty()) {
    NameColumns(names, options);
    return;
  }
  numbered_ = rows_;
  NameColumns(names, numbered_->options);
}

const DataSpec& RequestRows::Of(std::string_view text) const {
  return numbered_.has_value() && HasNumbersAlone(text) ? *numbered_ : rows_;
}

}  // namespace paracord
