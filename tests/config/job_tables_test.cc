#include "config/job_tables.h"

#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "tests/batches.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns the value as parsed from a job file.
json Parsed(const json& value) { return JsonOf(TextOf(value)); }

std::string ProblemOf(const json& value) {
  Problems problems;
  ReadTables(Parsed(value), problems);
  return std::string(problems.ToStatus().message());
}

TEST_CASE("tables are chosen for all or by layer, and come back from their canonical form") {
  for (const json& value :
       {json("auto"), json("off"),
        json{{"user", {{"kind", "fixed"}, {"update", "lazy"}}},
             {"country", {{"kind", "dense"}, {"update", "exact"}}}},
        json{{"user",
              {{"kind", "growing"},
               {"update", "lazy"},
               {"shards", 4},
               {"admit", {{"after", 3}, {"probability", 0.5}, {"candidates", 1000}}},
               {"expire", {{"batches", 1000}}},
               {"rows_max", 50000000}}}},
        json{{"user",
              {{"kind", "fixed"},
               {"update", "lazy"},
               {"optimizer",
                {{"name", "adagrad"}, {"learning_rate", 0.05}, {"row_wise", true}}}}}}}) {
    Problems problems;
    CHECK(TablesToJson(ReadTables(Parsed(value), problems)) == value);
    CHECK(problems.empty());
  }
  Problems problems;
  const TablesSpec spec = ReadTables({{"user", json::object()}}, problems);
  CHECK(spec.automatic);
  CHECK(spec.by_layer.at("user") == TablesSpec::Table{});
}

TEST_CASE("what is wrong with tables names the key") {
  CHECK(ProblemOf("of").starts_with("tables: must be \"auto\", \"off\" or an object"));
  CHECK(ProblemOf({{"user", {{"kind", "fix"}}}}).starts_with("tables.user.kind: "));
  CHECK(ProblemOf({{"user", {{"update", "late"}}}}).starts_with("tables.user.update: "));
  CHECK(ProblemOf({{"user", {{"updates", "lazy"}}}}).starts_with("tables.user.updates: "));
  CHECK(ProblemOf({{"user", {{"kind", "dense"}, {"update", "lazy"}}}}) ==
        "tables.user.update: \"lazy\" is for a table, and the kind is \"dense\"");
  CHECK(!ProblemOf({{"user", 1}}).empty());
}

TEST_CASE("a table may have another optimizer than the job, and a dense variable may not") {
  const json adagrad = {{"class_name", "Adagrad"}, {"config", {{"learning_rate", 0.5}}}};
  Problems problems;
  const TablesSpec spec = ReadTables(Parsed({{"user", {{"optimizer", adagrad}}}}), problems);
  CHECK(problems.empty());
  CHECK(spec.by_layer.at("user").optimizer->name == "adagrad");
  CHECK(ProblemOf({{"user", {{"kind", "dense"}, {"optimizer", "adam"}}}})
            .starts_with("tables.user.optimizer: is for a table"));
  const json row_wise = {{"name", "adam"}, {"row_wise", true}};
  CHECK(ProblemOf({{"user", {{"optimizer", row_wise}}}})
            .starts_with("tables.user.optimizer.row_wise: needs updates row by row"));
  CHECK(ProblemOf({{"user", {{"update", "lazy"}, {"optimizer", row_wise}}}}).empty());
  CHECK(ProblemOf({{"user", {{"kind", "growing"}, {"optimizer", row_wise}}}}).empty());
}

TEST_CASE("settings of a growing table have bounds, and a fixed one has none of them") {
  const auto growing = [](const char* key, const json& value) {
    return ProblemOf({{"user", {{"kind", "growing"}, {key, value}}}});
  };
  CHECK(growing("shards", 4096).empty());
  CHECK(growing("shards", 0).starts_with("tables.user.shards: "));
  CHECK(growing("shards", 4097).starts_with("tables.user.shards: "));
  CHECK(growing("admit", {{"after", 256}}).starts_with("tables.user.admit.after: "));
  CHECK(growing("admit", {{"probability", 0}}) ==
        "tables.user.admit.probability: is 0, with which no id ever has a row");
  CHECK(growing("admit", {{"afer", 2}}).find("`after`") != std::string::npos);
  CHECK(growing("admit", 3).starts_with("tables.user.admit: "));
  CHECK(growing("expire", json::object()).starts_with("tables.user.expire.batches: "));
  CHECK(growing("expire", {{"batches", 0}}).starts_with("tables.user.expire.batches: "));
  CHECK(growing("rows_max", 15) ==
        "tables.user.rows_max: is 15, fewer than one row for each of the 16 shards");
  CHECK(growing("shard", 4).find("`shards`") != std::string::npos);
  CHECK(ProblemOf({{"user", {{"shards", 4}}}}) ==
        "tables.user.shards: is for a table whose kind is \"growing\"");
}

TEST_CASE("a table that is another one on resume is named by what both jobs say of it") {
  Job before;
  const auto difference = [&](const Job& now) {
    return std::string(CheckResumable(before, now, PlanOf(1, 1, 1)).message());
  };
  before.tables.by_layer["t"] = {.growing = true};
  Job now = before;
  CHECK(difference(now).empty());
  now.tables.by_layer.clear();
  CHECK(difference(now) ==
        R"(tables.t: was {"kind":"growing","update":"exact"} and is now "auto", )"
        "but cannot change on resume");
  now.tables.automatic = false;
  CHECK(difference(now) == R"(tables.t: was {"kind":"growing","update":"exact"} and is now "off", )"
                           "but cannot change on resume");
  now = before;
  now.tables.by_layer["t"] = {.dense = true};
  CHECK(difference(now) == R"(tables.t: was {"kind":"growing","update":"exact"} and is now )"
                           R"({"kind":"dense","update":"exact"}, but cannot change on resume)");
  now = before;
  now.tables.by_layer["t"].shards = 8;
  CHECK(difference(now) == "tables.t.shards: was 16 and is now 8, but cannot change on resume");
  std::swap(before, now);
  before.tables.by_layer.clear();
  CHECK(difference(now).starts_with("tables.t: was \"auto\" and is now {\"kind\":\"growing\""));
}

}  // namespace
}  // namespace paracord
