// Padding ids in lists: no row is sent for an id if every reader ignores it, and masks of ids work
// for ids that float32 cannot represent.
#include <catch2/catch.hpp>

#include "keras/table_ids.h"
#include "tests/keras/table_models.h"

namespace paracord {
namespace {

using Ids = std::vector<uint64_t>;

// Returns the ids that a batch sends for each table, by variable.
std::map<std::string, Ids> SentIds(const Job& job, const Batch& batch) {
  auto program = BuildKerasProgram(job, WithoutValues(batch), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  const auto rows = (*program)->RowsOf(batch).value();
  std::map<std::string, Ids> sent;
  for (size_t v = 0; v < (*program)->variables().size(); ++v) {
    const VariableSpec& variable = (*program)->variables()[v];
    if (variable.has_table()) sent[variable.name()] = rows->ids[v];
  }
  return sent;
}

// Reduces the ids of `a` by the weights in `b`.
json Reduced(const std::string& combiner, int64_t width = 4) {
  const json reduce = {{"input_dim", 1000}, {"output_dim", 3}, {"combiner", combiner}};
  return ModelJson(json::array({InputJson("a", width), InputJson("b", width, "float32"),
                                Named("EmbedReduce", "rows", reduce, {CallWith({"a", "b"})}),
                                Named("Dense", "out", {{"units", 1}}, {Call("rows")})}),
                   {"a", "b"}, "out");
}

TEST_CASE("an id of weight 0 sends no row, and changes no bit") {
  const Batch batch =
      IdsBatch({7, 7, 0, 999, 1, 2, 0, 0, 9, 9, 0, 0}, {2, 0, 0, 1, 2, 0.5, 0, 0, 1, 0.25, 0, 0});
  const Job job = TablesJob(Reduced(GENERATE("sum", "mean", "sqrtn")), Fixed({"rows"}));
  CHECK(SentIds(job, batch) == std::map<std::string, Ids>{{"rows/embeddings", {1, 2, 7, 9, 999}}});
  CheckSame(job, batch, {"rows/embeddings"});
}

TEST_CASE("a batch in which no id has a weight sends no row") {
  const Batch batch = IdsBatch({7, 7, 0, 999}, {0, 0, 0, 0});
  const Job job = TablesJob(Reduced("sum"), Fixed({"rows"}));
  CHECK(SentIds(job, batch) == std::map<std::string, Ids>{{"rows/embeddings", {}}});
  CheckSame(job, batch, {"rows/embeddings"});
}

TEST_CASE("an id that another table reads without weights is sent") {
  json model = Reduced("sum");
  json& layers = model["config"]["layers"];
  layers.insert(layers.begin() + 3, EmbeddingJson("plain", 1000, {"a"}));
  layers.insert(layers.begin() + 4, Named("Flatten", "flat", json::object(), {Call("plain")}));
  layers.insert(layers.begin() + 5,
                Named("Concatenate", "all", json::object(), {CallWith({"rows", "flat"})}));
  layers[6]["inbound_nodes"] = json::array({Call("all")});
  const Batch batch = IdsBatch({7, 7, 0, 999}, {2, 0, 0, 1});
  const Job job = TablesJob(model, Fixed({"rows", "plain"}));
  CHECK(SentIds(job, batch) == std::map<std::string, Ids>{{"rows/embeddings", {0, 7, 999}},
                                                          {"plain/embeddings", {0, 7, 999}}});
  CheckSame(job, batch, {"rows/embeddings", "plain/embeddings"});
}

TEST_CASE("an id that a mask hides sends no row, and changes no bit") {
  const Batch batch =
      IdsBatch({7, 7, 0, 399, 1, 2, 7, 3, 5, 0, 5, 5}, {8, 0, 7, 1, 2, 2, 2, 2, 4, 0, 1, 0});
  const Job job = TablesJob(ThreeTables(/*mask=*/true), Fixed({"shared", "own"}));
  CHECK(SentIds(job, batch) ==
        std::map<std::string, Ids>{{"shared/embeddings", {1, 2, 3, 4, 5, 7, 8, 399}},
                                   {"own/embeddings", {0, 1, 2, 3, 5, 7, 399}}});
  CheckSame(job, batch, {"shared/embeddings", "own/embeddings"});
}

// An Embedding, and a layer that takes the steps with the mask computed in the file, as Keras 3
// writes it.
json Masked(const std::string& steps, json config, const json& table, bool hides = true) {
  json mask = Named("NotEqual", "not_equal", json::object(), {Call("a")});
  mask["module"] = "keras.src.ops.numpy";
  mask["inbound_nodes"][0]["args"].push_back(0);
  json read = Call("table");
  if (hides) read["kwargs"] = {{"mask", Call("not_equal")["args"][0]}};
  json embedding = Named("Embedding", "table", table, {Call("a")});
  return ModelJson(json::array({InputJson("a", 4), mask, embedding,
                                Named(steps, "steps", std::move(config), {read}),
                                Named("Dense", "out", {{"units", 1}}, {Call("steps")})}),
                   {"a"}, "out");
}

Batch OneInput(std::vector<float> ids) {
  Batch batch = IdsBatch(ids, ids);
  batch.inputs.pop_back();
  return batch;
}

TEST_CASE("recurrent layers leave out what the file's own mask hides") {
  const json table = {{"input_dim", 500}, {"output_dim", 3}, {"mask_zero", true}};
  const Batch batch = OneInput({7, 7, 0, 0, 1, 2, 7, 0, 5, 0, 0, 0});
  const std::string layer = GENERATE("LSTM", "GRU", "SimpleRNN");
  const json model = Masked(layer, {{"units", 2}}, table);
  const Job job = TablesJob(model, Fixed({"table"}));
  CHECK(SentIds(job, batch) == std::map<std::string, Ids>{{"table/embeddings", {1, 2, 5, 7}}});
  CheckSame(job, batch, {"table/embeddings"});
}

TEST_CASE("the row of the id 0 is sent where something reads it in spite of the mask") {
  const json table = {{"input_dim", 500}, {"output_dim", 3}, {"mask_zero", true}};
  const Batch batch = OneInput({7, 7, 0, 0, 1, 2, 7, 0});
  const json model = Masked("Flatten", json::object(), table, /*hides=*/false);
  const Job job = TablesJob(model, Fixed({"table"}));
  CHECK(SentIds(job, batch) == std::map<std::string, Ids>{{"table/embeddings", {0, 1, 2, 7}}});
  CheckSame(job, batch, {"table/embeddings"});
}

TEST_CASE("a mask that the file computes takes ids beyond 2^24") {
  constexpr int64_t kFar = int64_t{1} << 40;
  Batch batch = OneInput({0, 0, 0, 0, 0, 0, 0, 0});
  for (const auto& [place, id] : {std::pair<size_t, int64_t>{0, 5}, {1, kFar + 1}, {4, kFar + 3}}) {
    batch.inputs[0].values[place] = static_cast<float>(id);
    KeepExact(place, id, batch.inputs[0].exact);
  }
  const json table = {{"input_dim", 1}, {"output_dim", 3}, {"mask_zero", true}};
  TablesSpec tables;
  tables.by_layer["table"] = {.growing = true, .shards = 1};
  const Job job = TablesJob(Masked("LSTM", {{"units", 2}}, table), tables);
  CHECK(SentIds(job, batch) ==
        std::map<std::string, Ids>{
            {"table/embeddings", {5, uint64_t{kFar} + 1, uint64_t{kFar} + 3}}});
  auto program = BuildKerasProgram(job, WithoutValues(batch), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  LookupCounts lookups;
  CHECK((*program)->LookAt(batch, lookups).ok());
}

}  // namespace
}  // namespace paracord
