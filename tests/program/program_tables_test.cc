// Tables of a program in a child process, which looks up rows by local numbers.
#include "program/program_tables.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/process_program.h"

namespace paracord {
namespace {

using nlohmann::json;

// The gradient of a row is the row plus 100 for each occurrence. The loss is made of the number of
// rows, and the least and greatest local number.
constexpr char kLookUp[] = R"(import json, mmap, os, socket, struct
s = socket.socket(fileno=3)
def say(packet):
    s.send(json.dumps(packet).encode())
def hear():
    text = s.recv(1 << 18)
    if not text:
        os._exit(0)
    return json.loads(text)
say({"hello": 1, "outputs": [{"name": "", "shape": [2]}], "batches": [2], "variables": [
    {"name": "bias", "shape": [1]},
    {"name": "user.weight", "shape": [ROWS, 2], "table": TABLE, "initializer": "glorot_uniform"}]})
layout = hear()
memory = mmap.mmap(4, layout["bytes"])
assert layout["rows"][0] is None
ids = layout["inputs"][0]
assert ids["dtype"] == "int64", ids
say({"ready": True})
def put(at, numbers):
    struct.pack_into(f"{len(numbers)}f", memory, at, *numbers)
while True:
    request = hear()
    rows, = request["rows"]
    n = request["examples"]
    assert rows <= layout["rows"][1], layout["rows"]
    local = struct.unpack_from(f"{2 * n}q", memory, ids["offset"])
    values = struct.unpack_from(f"{2 * rows}f", memory, layout["values"][1])
    if request["do"] == "predict":
        put(layout["outputs"][0], [values[2 * i] for i in local])
        say({"done": True})
        continue
    gradient = list(values)
    for i in local:
        gradient[2 * i] += 100
        gradient[2 * i + 1] += 100
    put(layout["gradients"][0], [7])
    put(layout["gradients"][1], gradient)
    say({"loss": 10000 * rows + 100 * min(local) + max(local)})
)";

struct TableRig {
  explicit TableRig(const std::string& table = R"({"columns": ["user"]})", int64_t rows = 1000) {
    std::string code = kLookUp;
    code.replace(code.find("ROWS"), 4, absl::StrCat(rows));
    code.replace(code.find("TABLE"), 5, table);
    job.model = {{"program", "process"},
                 {"command", {"python3", "child.py"}},
                 {"files", {{"child.py", code}}},
                 {"step_s", 20u}};
    job.batch = 2;
    job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
    schema.inputs = {{"user", {2}, {}}, {"age", {}, {}}};
    schema.targets = {{"", {}, {}}};
    batch = schema;
    batch.examples = 2;
    batch.inputs[1].values = {1, 2};
    batch.targets[0].values = {0, 1};
  }

  std::string Start() {
    ProgramUse use;
    use.allowed = true;
    auto started = ProcessProgram::Start(job, schema, use);
    if (started.ok()) program = *std::move(started);
    return std::string(started.status().message());
  }

  void SetIds(const std::vector<float>& ids) { batch.inputs[0].values = ids; }

  // Computes with rows that hold ten times their id, or their index in the batch's rows.
  absl::StatusOr<double> Step() {
    ASSIGN_OR_RETURN(rows, program->RowsOf(batch));
    REQUIRE(rows != nullptr);
    values = {{5}, {}};
    for (size_t i = 0; i < rows->ids[1].size(); ++i) {
      values[1].insert(values[1].end(), 2, 10 * static_cast<float>(rows->ids[1][i] % 1000));
    }
    program->UseRows(rows);
    return Compute();
  }

  absl::StatusOr<double> Compute() {
    gradients = {{0}, std::vector<float>(values[1].size(), -1)};
    std::vector<std::span<const float>> in(values.begin(), values.end());
    std::vector<std::span<float>> out(gradients.begin(), gradients.end());
    return program->ComputeGradients(batch, /*batch_key=*/1, in, out);
  }

  Job job;
  Batch schema, batch;
  std::shared_ptr<const TableRows> rows;
  std::vector<std::vector<float>> values, gradients;
  std::unique_ptr<ProcessProgram> program;
};

using Ids = std::vector<uint64_t>;
using Numbers = std::vector<float>;

TEST_CASE("a child is given the rows of a batch and local numbers, and row 0 is that of id 0") {
  TableRig rig;
  REQUIRE(rig.Start() == "");
  REQUIRE(rig.program->variables()[1].table().kind() == TableSpec::FIXED);
  CHECK(rig.program->variables()[1].shape(0) == 1000);
  CHECK(absl::StrContains(rig.program->Summary(), "a table, of which at most 4 rows a batch"));
  rig.SetIds({7, 3, 999, 3});
  CHECK(rig.Step().value() == 10000 * 4 + 100 * 1 + 3);
  CHECK(rig.rows->ids == std::vector<Ids>{{}, {3, 7, 999}});
  CHECK(rig.gradients[0] == Numbers{7});
  CHECK(rig.gradients[1] == Numbers{230, 230, 170, 170, 10090, 10090});
  rig.SetIds({7, 0, 7, 7});
  CHECK(rig.Step().value() == 10000 * 2 + 100 * 0 + 1);
  CHECK(rig.rows->ids[1] == Ids{0, 7});
  CHECK(rig.gradients[1] == Numbers{100, 100, 370, 370});
}

TEST_CASE("a child whose tables are there whole is given the rows of the batch all the same") {
  TableRig rig;
  REQUIRE(rig.Start() == "");
  rig.program->UseRows(nullptr);
  rig.SetIds({7, 3, 7, 3});
  rig.values = {{5}, Numbers(2000)};
  for (size_t i = 0; i < 2000; ++i) rig.values[1][i] = static_cast<float>(i / 2);
  CHECK(rig.Compute().value() == 10000 * 3 + 100 * 1 + 2);
  Numbers expected(2000);
  expected[6] = expected[7] = 203;
  expected[14] = expected[15] = 207;
  CHECK(rig.gradients[1] == expected);
}

TEST_CASE("a growing table of a program has rows of any ids, shard after shard") {
  TableRig rig(R"({"columns": ["user"], "capacity": 3})", /*rows=*/64);
  rig.job.tables.by_layer["user"] = {.growing = true, .shards = 4, .admit_after = 2};
  REQUIRE(rig.Start() == "");
  const VariableSpec& variable = rig.program->variables()[1];
  CHECK(variable.table().kind() == TableSpec::GROWING);
  CHECK(variable.table().admit_after() == 2);
  CHECK(variable.shape(0) == 4);
  CHECK(variable.initializer().options().at("fan_in") == 64);
  rig.SetIds({-5, 16777216, 0, -5});
  rig.batch.inputs[0].exact = {{1, 9007199254740993}};
  REQUIRE(rig.Step().ok());
  REQUIRE(rig.rows->shards[1].size() == 5);
  CHECK(rig.rows->ids[1].size() == 3);
  CHECK(rig.rows->ids[1][0] == 0);
  CHECK(std::ranges::count(rig.rows->ids[1], uint64_t{9007199254740993}) == 1);
  for (size_t i = 0; i < 3; ++i) {
    const bool twice = rig.rows->ids[1][i] == static_cast<uint64_t>(-5);
    CHECK(rig.gradients[1][2 * i] == rig.values[1][2 * i] + (twice ? 200 : 100));
  }
  rig.SetIds({1, 2, 3, 4});
  rig.batch.inputs[0].exact.clear();
  CHECK(absl::StrContains(rig.Step().status().message(), "the capacity 3"));
}

TEST_CASE("a batch that is made up to another size has the number 0 in the place of ids") {
  TableRig rig;
  REQUIRE(rig.Start() == "");
  rig.SetIds({9, 8, 7, 6});
  REQUIRE(rig.Step().ok());
  rig.batch.examples = 1;
  rig.SetIds({4, 5});
  rig.batch.inputs[1].values = {1};
  rig.batch.targets[0].values = {0};
  rig.rows = rig.program->RowsOf(rig.batch).value();
  rig.program->UseRows(rig.rows);
  rig.values = {{5}, {40, 40, 50, 50}};
  const std::vector<std::span<const float>> in(rig.values.begin(), rig.values.end());
  const auto outputs = rig.program->Predict(rig.batch, in);
  REQUIRE(outputs.ok());
  CHECK(outputs->at(0).values == Numbers{40, 50});
}

TEST_CASE("a table that the job has move whole is there whole, with the ids themselves") {
  TableRig rig;
  if (GENERATE(false, true)) {
    rig.job.tables.automatic = false;
  } else {
    rig.job.tables.by_layer["user.weight"].dense = true;
  }
  REQUIRE(rig.Start() == "");
  CHECK_FALSE(rig.program->variables()[1].has_table());
  CHECK(rig.program->RowsOf(rig.batch).value() == nullptr);
  rig.SetIds({999, 3, 4, 5});
  rig.values = {{5}, Numbers(2000, 1)};
  CHECK(rig.Compute().value() == 10000 * 1000 + 100 * 3 + 999);
  CHECK(rig.gradients[1][1999] == 101);
  CHECK(rig.gradients[1][0] == 1);
  rig.SetIds({1000, 3, 4, 5});
  CHECK(absl::StrContains(rig.Compute().status().message(), "id 1000 is not in the table of user"));
}

TEST_CASE("ids that are none of a table are the batch's fault, and name their record") {
  TableRig rig;
  REQUIRE(rig.Start() == "");
  const auto [id, why] = GENERATE(table<float, std::string>(
      {{1000, "id 1000 is not in the table of user.weight, whose 1000 rows are 0 to 999"},
       {-1, "id -1 is not"},
       {2.5, "has 2.5, which is no whole number"},
       {33554432, "is no whole number that float32 tells from others"}}));
  rig.SetIds({1, 2, id, 3});
  const absl::Status status = rig.program->RowsOf(rig.batch).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), why));
  CHECK(absl::StrContains(status.message(), "example 1"));
  LookupCounts counts;
  CHECK_FALSE(rig.program->LookAt(rig.batch, counts).ok());
}

TEST_CASE("what is wrong with a table is said before anything is computed") {
  TableRig rig;
  SECTION("a rule that changes other rows, too") {
    rig.job.optimizer = {"adam"};
    CHECK(absl::StrContains(rig.Start(),
                            "adam changes rows that a batch does not read, too; "
                            "\"tables\": {\"user\": {\"update\": \"lazy\"}}"));
    rig.job.tables.by_layer["user"].lazy = true;
    REQUIRE(rig.Start() == "");
    CHECK(rig.program->variables()[1].table().lazy());
  }
  SECTION("a name that no table has") {
    rig.job.tables.by_layer["users"] = {};
    CHECK(absl::StrContains(rig.Start(), "tables.users: names no table of the program"));
    CHECK(absl::StrContains(rig.Start(), "(did you mean \"user\"?); supported: user.weight"));
  }
  SECTION("an input that the data lack") {
    CHECK(absl::StrContains(TableRig(R"({"columns": ["film"]})").Start(),
                            "reads ids of an input \"film\" that the data lack"));
  }
  SECTION("no columns") {
    CHECK(absl::StrContains(TableRig(R"({"columns": []})").Start(), "table.columns: must list"));
  }
}

// Tests declarations only, without a child.
TEST_CASE("tables that share inputs must number their ids alike") {
  Job job;
  job.batch = 4;
  job.optimizer = {"adagrad", json::object()};
  Batch schema;
  schema.inputs = {{"a", {}, {}}, {"b", {2}, {}}};
  ProgramHello hello;
  for (const uint64_t rows : {50, 20}) {
    VariableSpec& variable = hello.variables.emplace_back();
    variable.set_name(absl::StrCat("table", rows));
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    variable.mutable_initializer()->set_name("zeros");
    variable.add_shape(rows);
    variable.add_shape(3);
  }
  hello.tables[0].columns = {"a", "b"};
  const auto make = [&] {
    std::vector<VariableSpec> variables = hello.variables;
    return ProgramTables::Make(job, hello, schema, variables);
  };
  SECTION("the same inputs") {
    hello.tables[1].columns = {"b", "a"};
    const auto tables = make();
    REQUIRE(tables.ok());
    CHECK(tables->room().rows == std::vector<std::optional<uint64_t>>{13, 13});
    Batch batch = schema;
    batch.examples = 1;
    batch.inputs[0].values = {19};
    batch.inputs[1].values = {3, 19};
    const auto rows = tables->RowsOf(batch).value();
    CHECK(rows->ids == std::vector<Ids>{{3, 19}, {3, 19}});
    CHECK(rows->numbers == std::vector<std::vector<int64_t>>{{2}, {1, 2}});
    batch.inputs[0].values = {20};
    CHECK(absl::StrContains(tables->RowsOf(batch).status().message(), "the table of table20"));
  }
  SECTION("some of them") {
    hello.tables[1].columns = {"b"};
    CHECK(absl::StrContains(make().status().message(), "reads an input that table50 reads, too"));
  }
  SECTION("another kind") {
    hello.tables[1].columns = {"b", "a"};
    job.tables.by_layer["table20"].growing = true;
    CHECK(absl::StrContains(make().status().message(), "must read the same inputs and be of one"));
  }
}

}  // namespace
}  // namespace paracord
