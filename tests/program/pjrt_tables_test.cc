// Tables of StableHLO programs, whose modules get only the rows that a batch reads. Uses a fake
// PJRT plug-in (tests/fake_pjrt).
#include <catch2/catch.hpp>
#include <functional>

#include "absl/strings/match.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "program/pjrt_program.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

using nlohmann::json;

const std::string kTablePlugin = "pjrt:" PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

json Argument(const char* kind, const char* name) { return {{"kind", kind}, {"name", name}}; }

// The loss is the local number of the first id, a row's gradient is twice the row, and predictions
// are the local numbers of ids. A module has room for five rows.
json TableFile() {
  const json user = {{"kind", "variable"}, {"name", "user"}, {"rows", 5}};
  const json step = {
      {"kind", "step"},
      {"batch", 2},
      {"arguments",
       {user, Argument("variable", "bias"), Argument("input", "user"), Argument("input", "age"),
        Argument("target", "")}},
      {"results", {{{"kind", "loss"}}, Argument("gradient", "user"), Argument("gradient", "bias")}},
      {"code", FakeCode("f32 - 0 1 2\nf32 5x2 0 2 0\nf32 1 7 0 0\n")}};
  const json predict = {{"kind", "predict"},
                        {"batch", 2},
                        {"arguments", {user, Argument("input", "user")}},
                        {"results", {Argument("output", "")}},
                        {"code", FakeCode("f32 2x2 0 1 1\n")}};
  const json file = {{"format", 1},
                     {"made_by", "a test"},
                     {"stablehlo", "1.0.0"},
                     {"variables",
                      {{{"name", "user"}, {"shape", {1000, 2}}, {"table", {{"columns", {"user"}}}}},
                       {{"name", "bias"}, {"shape", {1}}}}},
                     {"inputs",
                      {{{"name", "user"}, {"shape", {2}}, {"dtype", "int32"}},
                       {{"name", "age"}, {"shape", json::array()}}}},
                     {"targets", {{{"name", ""}, {"shape", json::array()}}}},
                     {"outputs", {{{"name", ""}, {"shape", {2}}}}},
                     {"modules", {step, predict}}};
  return JsonOf(TextOf(file));
}

struct PjrtTableRig {
  PjrtTableRig() {
    job.model = StableHloModel(TableFile());
    job.batch = 2;
    job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
    schema.inputs = {{"age", {}, {}}, {"user", {2}, {}}};
    schema.targets = {{"", {}, {}}};
  }

  absl::Status Make() {
    auto made = PjrtProgram::Make(job, schema, {kTablePlugin});
    if (made.ok()) program = *std::move(made);
    return made.status();
  }

  void Read(const std::vector<float>& ids) {
    batch = schema;
    batch.examples = 2;
    batch.inputs[0].values = {30, 40};
    batch.inputs[1].values = ids;
    batch.targets[0].values = {0, 1};
  }

  // Computes with `rows`, whose values are 1, 2, 3 and so on. Null stands for the whole table, in
  // which a row holds its number.
  absl::StatusOr<double> Step(std::shared_ptr<const TableRows> rows) {
    const size_t there = rows == nullptr ? 1000 : rows->ids[0].size();
    values = {std::vector<float>(2 * there), {1}};
    for (size_t i = 0; i < values[0].size(); ++i) {
      values[0][i] = static_cast<float>(rows == nullptr ? i / 2 : i + 1);
    }
    gradients = {std::vector<float>(2 * there, -1), {-1}};
    const std::vector<std::span<const float>> in(values.begin(), values.end());
    const std::vector<std::span<float>> out(gradients.begin(), gradients.end());
    program->UseRows(std::move(rows));
    ASSIGN_OR_RETURN(const double loss, program->ComputeGradients(batch, 0, in, out));
    ASSIGN_OR_RETURN(const std::vector<Column> columns, program->Predict(batch, in));
    predicted = columns[0].values;
    return loss;
  }

  Job job;
  Batch schema, batch;
  std::vector<std::vector<float>> values, gradients;
  std::vector<float> predicted;
  std::unique_ptr<PjrtProgram> program;
};

TEST_CASE("a module has the rows that its batch reads, and numbers in the place of ids") {
  PjrtTableRig rig;
  const absl::Status made = rig.Make();
  INFO(made);
  REQUIRE(made.ok());
  CHECK(rig.program->variables()[0].table().kind() == TableSpec::FIXED);
  CHECK(absl::StrContains(rig.program->Summary(), "a table, of which at most 4 rows a batch"));
  rig.Read({7, 0, 7, 500});
  auto rows = rig.program->RowsOf(rig.batch).value();
  CHECK(rows->ids[0] == std::vector<uint64_t>{0, 7, 500});
  CHECK(rig.Step(rows).value() == 1);
  CHECK(rig.gradients[0] == std::vector<float>{2, 4, 6, 8, 10, 12});
  CHECK(rig.gradients[1] == std::vector<float>{7});
  CHECK(rig.predicted == std::vector<float>{1, 0, 1, 2});
  // Row 0 belongs to id 0. If the batch lacks id 0, the row is zero.
  rig.Read({9, 7, 500, 8});
  rows = rig.program->RowsOf(rig.batch).value();
  CHECK(rig.Step(rows).value() == 3);
  CHECK(rig.gradients[0] == std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16});
  CHECK(rig.predicted == std::vector<float>{3, 1, 4, 2});
}

TEST_CASE("of whole tables a module has the rows of its batch too, and all get a gradient") {
  PjrtTableRig rig;
  REQUIRE(rig.Make().ok());
  rig.Read({9, 7, 7, 7});
  CHECK(rig.Step(nullptr).value() == 2);
  for (size_t i = 0; i < 2000; ++i) {
    CHECK(rig.gradients[0][i] == (i / 2 == 7 ? 14 : i / 2 == 9 ? 18 : 0));
  }
}

TEST_CASE("a growing table of a program of StableHLO takes any id") {
  PjrtTableRig rig;
  rig.job.tables.by_layer["user"].growing = true;
  rig.job.tables.by_layer["user"].lazy = true;
  const absl::Status made = rig.Make();
  INFO(made);
  REQUIRE(made.ok());
  CHECK(rig.program->variables()[0].table().kind() == TableSpec::GROWING);
  rig.Read({16000000, 7, 7, 7});
  const auto rows = rig.program->RowsOf(rig.batch).value();
  CHECK(rows->has_shards(0));
  CHECK(rows->ids[0].size() == 2);
  CHECK(rig.Step(rows).ok());
  CHECK(rig.gradients[0] == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("tables that a program file or its job do not fit are refused") {
  const auto [change, why] = GENERATE(table<std::function<void(PjrtTableRig&)>, std::string>({
      {[](PjrtTableRig& rig) { rig.job.model["file"]["modules"][1]["arguments"][0].erase("rows"); },
       "modules[1].arguments[0].rows: must say how many rows of the table"},
      {[](PjrtTableRig& rig) { rig.job.model["file"]["modules"][0]["arguments"][1]["rows"] = 5u; },
       "modules[0].arguments[1].rows"},
      {[](PjrtTableRig& rig) { rig.job.model["file"]["modules"][0]["arguments"].erase(0); },
       "modules[0] has the gradient of the table user, which is no argument"},
      {[](PjrtTableRig& rig) { rig.job.model["file"]["inputs"][0]["dtype"] = "float32"; },
       "the table user reads the input \"user\", which must be one of int32 or int64"},
      {[](PjrtTableRig& rig) { rig.job.tables.by_layer["user"].dense = true; },
       "user is to move whole, and the program was exported for 5 of its rows"},
      {[](PjrtTableRig& rig) { rig.job.tables.by_layer["item"].growing = true; },
       "tables.item: names no table of the program"},
      {[](PjrtTableRig& rig) {
         json twice = rig.job.model["file"]["modules"][0]["arguments"][0];
         twice["rows"] = 9u;
         rig.job.model["file"]["modules"][0]["arguments"].push_back(twice);
       },
       "modules[0] has the table user as an argument twice"},
      {[](PjrtTableRig& rig) { rig.job.model["file"]["modules"][1]["arguments"][0]["rows"] = 3u; },
       "modules[1], a prediction of 2 examples, has room for 3 rows of the table user, and the "
       "step "
       "of 2 examples for 5"},
      {[](PjrtTableRig& rig) {
         // Predicts a batch in two pieces. Each piece has room only for the rows that the piece
         // reads.
         rig.job.model["file"]["modules"][1]["batch"] = 1u;
         rig.job.model["file"]["modules"][1]["arguments"][0]["rows"] = 3u;
         rig.job.model["file"]["modules"][1]["code"] = FakeCode("f32 1x2 0 1 1\n");
       },
       "modules[1], a prediction of 1 examples, has room for 3 rows of the table user"},
  }));
  PjrtTableRig rig;
  change(rig);
  const absl::Status status = rig.Make();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("predictions in pieces have all rows of their batch") {
  PjrtTableRig rig;
  json& predict = rig.job.model["file"]["modules"][1];
  predict["batch"] = 1u;
  predict["code"] = FakeCode("f32 1x2 0 1 1\n");
  const absl::Status made = rig.Make();
  INFO(made);
  REQUIRE(made.ok());
  rig.Read({9, 7, 500, 8});
  REQUIRE(rig.Step(rig.program->RowsOf(rig.batch).value()).ok());
  CHECK(rig.predicted == std::vector<float>{3, 1, 4, 2});
}

TEST_CASE("a module for small batches has room for their rows alone") {
  PjrtTableRig rig;
  json small = rig.job.model["file"]["modules"][1];
  small["batch"] = 1u;
  small["arguments"][0]["rows"] = 3u;
  small["code"] = FakeCode("f32 1x2 0 1 1\n");
  rig.job.model["file"]["modules"].push_back(small);
  CHECK(rig.Make().ok());
}

TEST_CASE("a batch that lacks what the data have is refused before its ids are read") {
  PjrtTableRig rig;
  REQUIRE(rig.Make().ok());
  rig.Read({9, 7, 500, 8});
  SECTION("columns") { rig.batch.inputs = {rig.batch.inputs[0]}; }
  SECTION("all columns") { rig.batch.inputs.clear(); }
  SECTION("the shape of a column") {
    rig.batch.inputs[1].shape = {};
    rig.batch.inputs[1].values = {9, 7};
  }
  SECTION("values") { rig.batch.inputs[1].values.clear(); }
  SECTION("targets") { rig.batch.targets.clear(); }
  SECTION("examples") { rig.batch.examples = 0; }
  LookupCounts counts;
  CHECK(absl::IsInvalidArgument(rig.program->LookAt(rig.batch, counts)));
  CHECK(absl::IsInvalidArgument(rig.program->RowsOf(rig.batch).status()));
  CHECK(absl::IsInvalidArgument(rig.Step(nullptr).status()));
}

TEST_CASE("a batch that reads more rows than a module has room for is its own fault") {
  PjrtTableRig rig;
  json& modules = rig.job.model["file"]["modules"];
  modules[0]["arguments"][0]["rows"] = 3u;
  modules[0]["code"] = FakeCode("f32 - 0 1 2\nf32 3x2 0 2 0\nf32 1 7 0 0\n");
  REQUIRE(rig.Make().ok());
  rig.Read({9, 7, 9, 9});
  CHECK(rig.Step(rig.program->RowsOf(rig.batch).value()).ok());
  rig.Read({9, 7, 8, 9});
  const absl::Status status = rig.Step(rig.program->RowsOf(rig.batch).value()).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(),
                          "reads 4 rows of the table user, and the program was exported for 3"));
  rig.Read({1000, 0, 0, 0});
  CHECK(absl::IsInvalidArgument(rig.program->RowsOf(rig.batch).status()));
}

}  // namespace
}  // namespace paracord
