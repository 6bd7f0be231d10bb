// Tables of a model: chosen according to the job, and computed from a batch's rows with the bits of
// a computation from all rows.
#include "keras/tables.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "config/partitions.h"
#include "keras/build.h"
#include "keras/table_ids.h"
#include "tensor/ops.h"
#include "tests/keras/table_models.h"

namespace paracord {
namespace {

using nlohmann::json;

TEST_CASE("ids are numbered among the distinct ones") {
  const uint64_t far = uint64_t{1} << 40;
  const std::vector<uint64_t> ids{far + 7, 3, 9, 3, 0, far, 2048, 3};
  std::vector<uint64_t> unique;
  std::vector<uint32_t> places;
  NumberIds(ids, unique, places);
  CHECK(unique == std::vector<uint64_t>{0, 3, 9, 2048, far, far + 7});
  CHECK(places == std::vector<uint32_t>{5, 1, 2, 1, 0, 4, 3, 1});
  NumberIds({}, unique, places);
  CHECK((unique.empty() && places.empty()));
}

TEST_CASE("a model computes with the rows of a batch as with all rows, to the bit") {
  const bool mask = GENERATE(false, true);
  const uint32_t accumulate = GENERATE(1u, 3u);
  Job job = TablesJob(ThreeTables(mask), Fixed({"shared", "own"}));
  job.accumulate = accumulate;
  INFO(mask << " " << accumulate);
  const std::vector<std::string> tables{"shared/embeddings", "own/embeddings"};
  SECTION("with ids that are repeated, and the id zero") {
    CheckSame(job,
              IdsBatch({7, 7, 0, 399, 1, 2, 7, 3, 0, 0, 5, 5, 17, 16, 15, 14},
                       {999, 0, 7, 1, 2, 2, 2, 2, 0, 500, 1, 0, 3, 3, 0, 0}),
              tables);
  }
  SECTION("and without it, where another id is the first row") {
    CheckSame(job,
              IdsBatch({7, 7, 4, 399, 1, 2, 7, 3, 1, 1, 5, 5, 17, 16, 15, 14},
                       {999, 1, 7, 1, 2, 2, 2, 2, 4, 500, 1, 3, 3, 3, 8, 8}),
              tables);
  }
}

TEST_CASE("ids that preprocessing layers make are known before values are needed") {
  const json model = SequentialJson(
      {LayerJson("InputLayer",
                 {{"name", "word"}, {"dtype", "string"}, {"batch_shape", {nullptr, 2}}}),
       LayerJson("Hashing", {{"name", "hash"}, {"num_bins", 1000}}),
       LayerJson("Embedding", {{"name", "words"}, {"input_dim", 1000}, {"output_dim", 3}}),
       LayerJson("Flatten", {{"name", "flat"}}),
       LayerJson("Dense", {{"name", "out"}, {"units", 1}})});
  Batch batch;
  batch.examples = 2;
  batch.inputs.push_back({"word", {2}, {}, true, {"red", "green", "blue", "red"}});
  batch.targets.push_back({"", {1}, {1, 2}});
  CheckSame(TablesJob(model, Fixed({"words"})), batch, {"words/embeddings"});
}

TEST_CASE("rows that are reduced are those of a table, and weights stay numbers") {
  const json reduce = {{"input_dim", 1000}, {"output_dim", 3}, {"combiner", "sqrtn"}};
  const json model = ModelJson(
      json::array({InputJson("a", 4), InputJson("b", 4),
                   Named("EmbedReduce", "rows", reduce, {CallWith({"a", "b"})}),
                   Named("EmbedReduce", "same", reduce, {CallWith({"b", "b"})}),
                   Named("Concatenate", "all", json::object(), {CallWith({"rows", "same"})}),
                   Named("Dense", "out", {{"units", 1}}, {Call("all")})}),
      {"a", "b"}, "out");
  Job job = TablesJob(model, Fixed({"rows", "same"}));
  job.accumulate = GENERATE(1u, 2u);
  CheckSame(job,
            IdsBatch({7, 7, 0, 999, 1, 2, 7, 3, 0, 0, 5, 5}, {2, 0, 7, 1, 2, 2, 2, 2, 0, 5, 1, 0}),
            {"rows/embeddings", "same/embeddings"});
}

TEST_CASE("an id that is not in its table is refused with its place") {
  auto program = BuildKerasProgram(TablesJob(ThreeTables(), Fixed({"shared", "own"})),
                                   WithoutValues(IdsBatch({0, 0, 0, 0}, {0, 0, 0, 0})), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  const auto refused = [&](const Batch& batch) {
    return std::string((*program)->RowsOf(batch).status().message());
  };
  CHECK(refused(IdsBatch({0, 0, 0, 0, 1, 2, 500, 3}, {0, 0, 0, 0, 0, 0, 0, 0})) ==
        "example 1 of the batch: id 500 is not in the table of own, whose 500 rows are 0 to 499");
  CHECK(refused(IdsBatch({0, 0, 0, 0}, {0, 0, 0, -1})) ==
        "example 0 of the batch: id -1 is not in the table of shared, whose 1000 rows are 0 to "
        "999");
  Batch rounded = IdsBatch({0, 0, 0, 0}, {0, 0, 0, 3e8f});
  CHECK(refused(rounded).starts_with("example 0 of the batch: id 3e+08 is no whole number"));
  rounded.inputs[1].exact.push_back({3, 300000001});
  CHECK(refused(rounded).starts_with("example 0 of the batch: id 300000001 is not in the table"));
}

std::string Refused(const Job& job) {
  return std::string(CheckKerasModel(job, TestOps()).message());
}

TEST_CASE("a table that the job names must be one that can be had") {
  CHECK(Refused(TablesJob(ThreeTables(), Fixed({"shard"}))) ==
        "tables.shard: names no Embedding of the model; \"shard\" is not supported (did you mean "
        "\"shared\"?); supported: shared, own, small");
  Job job = TablesJob(ThreeTables(), Fixed({"own"}));
  CHECK(Refused(job).empty());
  job.optimizer.name = "adam";
  CHECK(Refused(job) ==
        "tables.own: cannot be a table as it is: adam changes rows that a batch does not read, "
        "too; \"update\": \"lazy\" acts on the rows of a batch alone, \"kind\": \"dense\" moves "
        "all of it");
  job.tables.by_layer["own"].lazy = true;
  CHECK(Refused(job).empty());
  job.tables.by_layer["own"] = {.optimizer = NamedSpec{"adagrad"}};
  CHECK(Refused(job).empty());
  for (const VariableSpec& variable : DeclaredVariables(job, TestOps())) {
    CHECK(variable.table().optimizer() ==
          (variable.name() == "own/embeddings" ? R"({"name":"adagrad"})" : ""));
  }
  job.tables.by_layer["own"] = {.dense = true};
  CHECK(Refused(job).empty());

  json computed = ThreeTables();
  computed["config"]["layers"][3]["inbound_nodes"] = json::array({Call("twice")});
  computed["config"]["layers"].insert(
      computed["config"]["layers"].begin() + 3,
      Named("Add", "twice", json::object(), {CallWith({"a", "b"})}));
  CHECK(Refused(TablesJob(computed, Fixed({"own"})))
            .starts_with("tables.own: cannot be a table: its ids must be an input of the model"));
}

TEST_CASE("auto makes a table of what is large and does the same with its rows alone") {
  json model = ThreeTables();
  model["config"]["layers"][3]["config"]["input_dim"] = 1 << 20;
  Job job = TablesJob(model, {});
  const auto tables = [&] {
    std::vector<std::string> found;
    for (const VariableSpec& variable : DeclaredVariables(job, TestOps())) {
      if (variable.has_table()) found.push_back(variable.name());
    }
    return found;
  };
  CHECK(tables() == std::vector<std::string>{"own/embeddings"});
  CHECK(TableNotes(job).empty());
  job.tables.automatic = false;
  CHECK(tables().empty());
  CHECK(TableNotes(job).empty());

  job.tables.automatic = true;
  job.optimizer.name = "adam";
  CHECK(tables().empty());
  CHECK(TableNotes(job) ==
        std::vector<std::string>{
            "layer \"own\" (Embedding): all of it, 12.0 MiB, travels both ways every step, because "
            "adam changes "
            "rows that a batch does not read, too; \"tables\": {\"own\": {\"update\": \"lazy\"}} "
            "would move the rows of the batch"});
  job.optimizer.name = "adagrad";
  job.model["config"]["layers"][3]["config"]["embeddings_regularizer"] = {
      {"class_name", "L2"}, {"config", {{"l2", 0.1}}}};
  CHECK(tables().empty());
  REQUIRE(TableNotes(job).size() == 1);
  CHECK(TableNotes(job)[0].find("because its regularizer acts on every row") != std::string::npos);
}

TablesSpec GrowingTables(std::initializer_list<const char*> layers) {
  TablesSpec tables;
  for (const char* layer : layers) tables.by_layer[layer] = {.growing = true, .shards = 5};
  return tables;
}

// Returns random 64 bits for an id, but 0 for 0, which masks hide.
uint64_t FarIdOf(uint64_t id) { return id == 0 ? 0 : Mix64(id); }

Batch FarIdsBatch(Batch batch) {
  for (Column& column : batch.inputs) {
    for (size_t i = 0; i < column.values.size(); ++i) {
      const auto far = static_cast<int64_t>(FarIdOf(static_cast<uint64_t>(column.values[i])));
      column.values[i] = static_cast<float>(far);
      KeepExact(i, far, column.exact);
    }
  }
  return batch;
}

// Each id must be in its shard, and the ids of a shard must ascend.
void CheckIdShards(std::span<const uint64_t> ids, std::span<const uint32_t> shards) {
  REQUIRE(shards.size() == 6);
  CHECK(shards.back() == ids.size());
  for (uint64_t shard = 0; shard < 5; ++shard) {
    const auto own = ids.subspan(shards[shard], shards[shard + 1] - shards[shard]);
    CHECK(std::ranges::all_of(own, [&](uint64_t id) { return ShardOfRow(id, 5) == shard; }));
    CHECK(std::ranges::is_sorted(own));
  }
}

// Returns the rows with the ids of fixed tables.
TableRows NearRows(const GradientProgram& program, const TableRows& rows) {
  TableRows named = rows;
  for (size_t v = 0; v < named.ids.size(); ++v) {
    const VariableSpec& variable = program.variables()[v];
    if (!variable.has_table()) continue;
    CHECK(variable.shape(0) == 5);
    REQUIRE(rows.has_shards(v));
    CheckIdShards(rows.ids[v], rows.shards[v]);
    for (uint64_t& id : named.ids[v]) {
      uint64_t own = 0;
      while (FarIdOf(own) != id) ++own;
      id = own;
    }
  }
  return named;
}

TEST_CASE("a growing table computes with any ids what a fixed one does with its own") {
  const bool mask = GENERATE(false, true);
  const bool zero = GENERATE(false, true);  // one id is 0
  INFO(mask << " " << zero);
  const float least = zero ? 0 : 9;
  const Batch near = IdsBatch({7, 7, least, 399, 1, 2, 7, 3, least, least, 5, 5, 17, 16, 15, 14},
                              {399, least, 7, 1, 2, 2, 2, 2, least, 300, 1, least, 3, 3, 8, 8});
  const Batch far = FarIdsBatch(near);
  json model = ThreeTables(mask);
  // `small` has too few rows for these ids, so it becomes a growing table as well.
  model["config"]["layers"][3]["config"]["input_dim"] = 400;
  Job job = TablesJob(model, GrowingTables({"shared", "own", "small"}));
  auto with = BuildKerasProgram(job, WithoutValues(far), TestOps());
  job.tables = {.automatic = false, .by_layer = {}};
  auto without = BuildKerasProgram(job, WithoutValues(near), TestOps());
  INFO(with.status() << without.status());
  REQUIRE((with.ok() && without.ok()));
  Variables all(**without);
  all.Randomise(3);
  const double loss =
      (*without)->ComputeGradients(near, 5, all.value_spans(), all.gradient_spans()).value();
  LookupCounts lookups;
  CHECK((*with)->LookAt(far, lookups).ok());

  const auto rows = (*with)->RowsOf(far).value();
  REQUIRE(rows != nullptr);
  const TableRows named = NearRows(**with, *rows);
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
  for (size_t v = 0; v < named.ids.size(); ++v) {
    values.push_back(all.values[v]);
    if ((*with)->variables()[v].has_table()) values[v].clear();
    for (const uint64_t id : named.ids[v]) {
      const auto row = all.values[v].begin() + static_cast<std::ptrdiff_t>(id * 3);
      values[v].insert(values[v].end(), row, row + 3);
    }
    gradients.emplace_back(values[v].size(), 9.f);
  }
  for (auto& each : values) value_spans.emplace_back(each);
  for (auto& each : gradients) gradient_spans.emplace_back(each);
  (*with)->UseRows(rows);
  CHECK((*with)->ComputeGradients(far, 5, value_spans, gradient_spans).value() == loss);
  for (size_t v = 0; v < named.ids.size(); ++v) {
    std::vector<float> back = gradients[v];
    if ((*with)->variables()[v].has_table()) {
      back.assign(all.gradients[v].size(), 0.f);
      for (size_t k = 0; k < named.ids[v].size(); ++k) {
        std::copy_n(gradients[v].begin() + static_cast<std::ptrdiff_t>(k * 3), 3,
                    back.begin() + static_cast<std::ptrdiff_t>(named.ids[v][k] * 3));
      }
    }
    CHECK(back == all.gradients[v]);
  }
}

TEST_CASE("a growing table says what travels, and keeps the scale that its layer has") {
  json model = ThreeTables();
  model["config"]["layers"][3]["config"]["embeddings_initializer"] = "glorot_uniform";
  Job job = TablesJob(model, GrowingTables({"own"}));
  TablesSpec::Table& own = job.tables.by_layer["own"];
  own.admit_after = 3;
  own.expire_batches = 1000;
  CHECK(TableNotes(job) ==
        std::vector<std::string>{
            "layer \"own\" (Embedding): a growing table, of which the rows of the batch travel; an "
            "id has a row from its 3rd appearance on, until 1000 batches do not touch it"});
  for (const VariableSpec& variable : DeclaredVariables(job, TestOps())) {
    if (variable.name() != "own/embeddings") continue;
    CHECK(variable.table().kind() == TableSpec::GROWING);
    CHECK(variable.table().admit_after() == 3);
    CHECK(variable.shape(0) == 5);
    CHECK(variable.initializer().options().at("fan_in") == 500);
    CHECK(variable.initializer().options().at("fan_out") == 3);
  }
  job.optimizer.name = "adam";
  CHECK(Refused(job).starts_with("tables.own: cannot be a table as it is: adam changes rows"));
  own.lazy = true;
  CHECK(Refused(job).empty());
}

}  // namespace
}  // namespace paracord
