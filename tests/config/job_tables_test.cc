#include "config/job_tables.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

using nlohmann::json;

std::string Problem(const json& value) {
  Problems problems;
  ReadTables(value, problems);
  return std::string(problems.ToStatus().message());
}

TEST_CASE("tables are chosen for all or by layer, and come back from their canonical form") {
  for (const json& value : {json("auto"), json("off"),
                            json{{"user", {{"kind", "fixed"}, {"update", "lazy"}}},
                                 {"country", {{"kind", "dense"}, {"update", "exact"}}}}}) {
    Problems problems;
    CHECK(TablesToJson(ReadTables(value, problems)) == value);
    CHECK(problems.empty());
  }
  Problems problems;
  const TablesSpec spec = ReadTables({{"user", json::object()}}, problems);
  CHECK(spec.automatic);
  CHECK(spec.by_layer.at("user") == TablesSpec::Table{});
}

TEST_CASE("what is wrong with tables names the key") {
  CHECK(Problem("of").starts_with("tables: must be \"auto\", \"off\" or an object"));
  CHECK(Problem({{"user", {{"kind", "growing"}}}}) ==
        "tables.user.kind: \"growing\" is not supported yet; supported: fixed, dense");
  CHECK(Problem({{"user", {{"kind", "fix"}}}}).starts_with("tables.user.kind: "));
  CHECK(Problem({{"user", {{"update", "late"}}}}).starts_with("tables.user.update: "));
  CHECK(Problem({{"user", {{"updates", "lazy"}}}}).starts_with("tables.user.updates: "));
  CHECK(Problem({{"user", {{"kind", "dense"}, {"update", "lazy"}}}}) ==
        "tables.user.update: \"lazy\" is for a table, and the kind is \"dense\"");
  CHECK(!Problem({{"user", 1}}).empty());
}

}  // namespace
}  // namespace paracord
