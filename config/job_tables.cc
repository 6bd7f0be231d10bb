#include "config/job_tables.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

using nlohmann::json;

TablesSpec::Table ReadTable(const json& value, const std::string& key, Problems& problems) {
  TablesSpec::Table table;
  JsonFields fields(value, key, problems);
  if (!value.is_object()) return table;
  static constexpr std::string_view kKinds[] = {"fixed", "dense"};
  static constexpr std::string_view kUpdates[] = {"exact", "lazy"};
  const json* const kind_value = fields.Find("kind");
  if (kind_value != nullptr && *kind_value == "growing") {
    fields.Problem("kind", "\"growing\" is not supported yet; supported: fixed, dense");
  } else {
    std::string kind = "fixed";
    fields.OneOf("kind", kKinds, kind);
    table.dense = kind == "dense";
  }
  std::string update = "exact";
  fields.OneOf("update", kUpdates, update);
  table.lazy = update == "lazy";
  if (table.dense && table.lazy) {
    fields.Problem("update", "\"lazy\" is for a table, and the kind is \"dense\"");
  }
  fields.ReportUnknown();
  return table;
}

}  // namespace

TablesSpec ReadTables(const json& value, Problems& problems) {
  TablesSpec spec;
  if (value == "auto") return spec;
  if (value == "off") {
    spec.automatic = false;
    return spec;
  }
  if (!value.is_object()) {
    problems.Add("tables",
                 absl::StrCat("must be \"auto\", \"off\" or an object by the names of Embedding "
                              "layers, is ",
                              JsonExcerpt(value)));
    return spec;
  }
  for (const auto& [layer, table] : value.items()) {
    spec.by_layer[layer] = ReadTable(table, absl::StrCat("tables.", layer), problems);
  }
  return spec;
}

json TablesToJson(const TablesSpec& spec) {
  if (!spec.automatic) return "off";
  if (spec.by_layer.empty()) return "auto";
  json object = json::object();
  for (const auto& [layer, table] : spec.by_layer) {
    object[layer] = {{"kind", table.dense ? "dense" : "fixed"},
                     {"update", table.lazy ? "lazy" : "exact"}};
  }
  return object;
}

}  // namespace paracord
