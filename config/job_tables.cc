#include "config/job_tables.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "config/limits.h"
#include "config/named_spec.h"

namespace paracord {
namespace {

using nlohmann::json;

void ReadAdmit(const json& value, const std::string& key, TablesSpec::Table& table,
               Problems& problems) {
  JsonFields fields(value, key, problems);
  if (!value.is_object()) return;
  fields.Integer("after", 1, kAdmitAfterMax, table.admit_after);
  fields.Integer("candidates", 1, kCandidatesMax, table.candidates);
  double probability = 1;
  fields.Number("probability", 0, 1, probability);
  if (probability > 0) {
    table.admit_probability = probability;
  } else {
    fields.Problem("probability", "is 0, with which no id ever has a row");
  }
  fields.ReportUnknown();
}

void ReadGrowing(JsonFields& fields, TablesSpec::Table& table, Problems& problems) {
  static constexpr const char* kKeys[] = {"shards", "admit", "expire", "rows_max"};
  if (!table.growing) {
    for (const char* key : kKeys) {
      if (fields.FindValue(key) != nullptr) {
        fields.Problem(key, "is for a table whose kind is \"growing\"");
      }
    }
    return;
  }
  fields.Integer("shards", 1, kTableShardsMax, table.shards);
  if (const json* const admit = fields.FindValue("admit")) {
    ReadAdmit(*admit, fields.PathOf("admit"), table, problems);
  }
  if (const json* const expire = fields.FindValue("expire")) {
    JsonFields inside(*expire, fields.PathOf("expire"), problems);
    if (expire->is_object()) {
      if (inside.FindValue("batches") == nullptr) {
        inside.Problem("batches", "is needed: a row expires so many batches after its last touch");
      }
      inside.Integer("batches", 1, kExpireBatchesMax, table.expire_batches);
      inside.ReportUnknown();
    }
  }
  if (fields.FindValue("rows_max") == nullptr) return;
  fields.Integer("rows_max", 1, uint64_t{1} << 48, table.rows_max);
  if (table.rows_max != 0 && table.rows_max < table.shards) {
    fields.Problem("rows_max", absl::StrCat("is ", table.rows_max, ", fewer than one row for each ",
                                            "of the ", table.shards, " shards"));
  }
}

void ReadOptimizer(JsonFields& fields, TablesSpec::Table& table, Problems& problems) {
  const json* const value = fields.FindValue("optimizer");
  if (value == nullptr) return;
  if (table.dense) {
    fields.Problem("optimizer",
                   "is for a table; where the kind is \"dense\", the job's optimizer applies");
  }
  table.optimizer =
      ReadNamedSpec(NamedKind::kOptimizer, *value, fields.PathOf("optimizer"), problems);
  if (!table.optimizer.has_value() || table.growing || table.lazy) return;
  if (table.optimizer->options.value("row_wise", json()) == true) {
    fields.Problem("optimizer.row_wise",
                   "needs updates row by row: \"update\": \"lazy\", or \"kind\": \"growing\"");
  }
}

TablesSpec::Table ReadTable(const json& value, const std::string& key, Problems& problems) {
  TablesSpec::Table table;
  JsonFields fields(value, key, problems);
  if (!value.is_object()) return table;
  static constexpr std::string_view kKinds[] = {"fixed", "growing", "dense"};
  static constexpr std::string_view kUpdates[] = {"exact", "lazy"};
  std::string kind = "fixed";
  fields.OneOf("kind", kKinds, kind);
  table.dense = kind == "dense";
  table.growing = kind == "growing";
  std::string update = "exact";
  fields.OneOf("update", kUpdates, update);
  table.lazy = update == "lazy";
  if (table.dense && table.lazy) {
    fields.Problem("update", "\"lazy\" is for a table, and the kind is \"dense\"");
  }
  ReadOptimizer(fields, table, problems);
  ReadGrowing(fields, table, problems);
  fields.ReportUnknown();
  return table;
}

json TableToJson(const TablesSpec::Table& table) {
  json object = {{"kind", table.dense     ? "dense"
                          : table.growing ? "growing"
                                          : "fixed"},
                 {"update", table.lazy ? "lazy" : "exact"}};
  if (table.optimizer.has_value()) object["optimizer"] = NamedSpecToJson(*table.optimizer);
  if (!table.growing) return object;
  object["shards"] = table.shards;
  object["admit"] = {{"after", table.admit_after},
                     {"probability", table.admit_probability},
                     {"candidates", table.candidates}};
  object["expire"] = nullptr;
  if (table.expire_batches != 0) object["expire"] = {{"batches", table.expire_batches}};
  object["rows_max"] = nullptr;
  if (table.rows_max != 0) object["rows_max"] = table.rows_max;
  return object;
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
  for (const auto& [layer, table] : spec.by_layer) object[layer] = TableToJson(table);
  return object;
}

}  // namespace paracord
