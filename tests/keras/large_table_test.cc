// Tests embeddings with more rows than float32 can tell apart.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "keras/build.h"
#include "tensor/ops.h"
#include "tensor/row_ids.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr int64_t kRows = kPlainRowsMax + 8;

json ShapedInput(const std::string& name, const std::string& dtype, json shape) {
  return LayerJson("InputLayer",
                   {{"name", name}, {"dtype", dtype}, {"batch_shape", std::move(shape)}});
}
json TableJson(int64_t rows = kRows) {
  return LayerJson("Embedding", {{"name", "table"}, {"input_dim", rows}, {"output_dim", 1}});
}
json FlattenJson() { return LayerJson("Flatten", {{"name", "flat"}}); }

// Returns a batch of exact ids with one target number.
Batch IdBatch(const std::vector<int64_t>& ids) {
  Batch batch;
  batch.examples = static_cast<uint32_t>(ids.size());
  batch.inputs.push_back({"id", {1}, {}});
  for (const int64_t id : ids) {
    KeepExact(batch.inputs[0].values.size(), id, batch.inputs[0].exact);
    batch.inputs[0].values.push_back(static_cast<float>(id));
  }
  batch.targets.push_back({"", {1}, std::vector<float>(ids.size(), 1)});
  return batch;
}

Batch SchemaOfBatch(Batch batch) {
  for (Column& column : batch.inputs) {
    column.values.clear();
    column.strings.clear();
    column.exact.clear();
  }
  for (Column& column : batch.targets) column.values.clear();
  return batch;
}

absl::StatusOr<std::unique_ptr<GradientProgram>> Build(const json& model, const Batch& batch) {
  return BuildKerasProgram(JobFor(model, "mean_squared_error"), SchemaOfBatch(batch), TestOps());
}

// Returns the rows of the table with a nonzero gradient.
absl::StatusOr<std::vector<size_t>> TouchedRows(const json& model, const Batch& batch) {
  auto program = Build(model, batch);
  if (!program.ok()) return program.status();
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::span<const float>> value_spans;
  std::vector<std::span<float>> gradient_spans;
  for (const VariableSpec& variable : (*program)->variables()) {
    size_t size = 1;
    for (const auto dim : variable.shape()) size *= static_cast<size_t>(dim);
    values.emplace_back(size, 0.0f);
    gradients.emplace_back(size, 0.0f);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    value_spans.emplace_back(values[i]);
    gradient_spans.emplace_back(gradients[i]);
  }
  const auto loss = (*program)->ComputeGradients(batch, 1, value_spans, gradient_spans);
  if (!loss.ok()) return loss.status();
  std::vector<size_t> rows;
  for (size_t row = 0; row < gradients[0].size(); ++row) {
    if (gradients[0][row] != 0) rows.push_back(row);
  }
  return rows;
}

void CheckRefused(const json& model, const Batch& batch, const std::string& expected) {
  const absl::Status status = TouchedRows(model, batch).status();
  INFO(expected << "\n got " << status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find(expected) != std::string::npos);
}

TEST_CASE("rows become floats and rows again, in tables of any size") {
  for (const int64_t rows :
       {int64_t{3}, kPlainRowsMax, kRows, int64_t{2000000000}, kTableRowsMax}) {
    for (const int64_t row : {int64_t{0}, int64_t{1}, int64_t{2}, rows / 2, rows - 2, rows - 1}) {
      INFO(row << " of " << rows);
      const float id = RowToFloat(row, rows);
      CHECK(std::isfinite(id));
      CHECK((id == 0) == (row == 0));
      CHECK((row == 0 || std::fpclassify(id) == FP_NORMAL));
      CHECK(RowOfFloat(id, rows) == row);
    }
  }
  CHECK(RowOfFloat(RowToFloat(kRows, kTableRowsMax), kRows) == -1);
  CHECK(RowOfFloat(-1.5f, kRows) == -1);
  CHECK(RowOfFloat(NAN, kRows) == -1);
}

TEST_CASE("ids beyond 2^24 train their own rows") {
  const json model =
      SequentialJson({ShapedInput("id", "int64", {nullptr, 1}), TableJson(), FlattenJson()});
  const int64_t top = kPlainRowsMax;
  const auto rows = TouchedRows(model, IdBatch({0, 5, top, top + 1, top + 3, 5}));
  INFO(rows.status());
  REQUIRE(rows.ok());
  const auto at = static_cast<size_t>(top);
  CHECK(*rows == std::vector<size_t>{0, 5, at, at + 1, at + 3});
  CheckRefused(model, IdBatch({1, kRows}),
               absl::StrCat("example 1 of the batch: id ", kRows,
                            " is not in the model's embedding, 0 to ", kRows - 1));
  CheckRefused(model, IdBatch({-1}), "id -1 is not in the model's embedding");
  Batch rounded = IdBatch({top + 1});
  rounded.inputs[0].exact.clear();  // an array of float32 has none
  CheckRefused(model, rounded, "id 1.67772e+07 is no whole number that float32 tells from others");
}

TEST_CASE("indices of a preprocessing layer beyond 2^24 train their own rows") {
  const json model = SequentialJson({ShapedInput("id", "int64", {nullptr, 1}),
                                     LayerJson("Hashing", {{"name", "h"}, {"num_bins", kRows}}),
                                     TableJson(), FlattenJson()});
  std::vector<int64_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i) << 40;
  const auto rows = TouchedRows(model, IdBatch(ids));
  INFO(rows.status());
  REQUIRE(rows.ok());
  CHECK(rows->size() == 64);
}

TEST_CASE("an id that a small table lacks is refused by its own digits") {
  const json model = SequentialJson(
      {ShapedInput("id", "int64", {nullptr, 1}), TableJson(kPlainRowsMax), FlattenJson()});
  CheckRefused(model, IdBatch({kPlainRowsMax + 1}), "id 16777217 is not in the model's embedding");
  const json smaller =
      SequentialJson({ShapedInput("id", "int64", {nullptr, 1}), TableJson(2000000), FlattenJson()});
  CheckRefused(smaller, IdBatch({2000007}), "id 2000007 is not in the model's embedding");
}

TEST_CASE("whole numbers that the model computes with are refused where float32 lacks them") {
  const auto model = [](const std::string& dtype) {
    return SequentialJson({ShapedInput("id", dtype, {nullptr, 1}),
                           LayerJson("Dense", {{"name", "d"}, {"units", 1}})});
  };
  const Batch batch = IdBatch({1, kPlainRowsMax + 1});
  CheckRefused(model("int64"), batch,
               "example 1 of the batch: 16777217 is a whole number beyond 2^24");
  CHECK(TouchedRows(model("float32"), batch).ok());  // rounds, like Keras
}

json Functional(std::vector<json> layers, const std::string& output) {
  layers.insert(layers.begin(),
                Named("InputLayer", "id", {{"batch_shape", {nullptr, 1}}, {"dtype", "int64"}},
                      json::array()));
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "model"},
            {"layers", layers},
            {"input_layers", {{"id", 0, 0}}},
            {"output_layers", {{output, 0, 0}}}}}};
}
json TableOn(const std::string& input) {
  return Named("Embedding", "table", {{"input_dim", kRows}, {"output_dim", 1}},
               json::array({Call(input)}));
}
json FlattenOn(const std::string& input) {
  return Named("Flatten", "flat", json::object(), json::array({Call(input)}));
}
json RescaledOn(const std::string& input) {
  return Named("Rescaling", "r", {{"scale", 0.5}, {"offset", 1.0}}, json::array({Call(input)}));
}

TEST_CASE("an input is ids of a large table and a number for others at once") {
  const json add = Named("Add", "sum", json::object(), json::array({CallWith({"flat", "r"})}));
  const json model = Functional({TableOn("id"), FlattenOn("table"), RescaledOn("id"), add}, "sum");
  const auto rows = TouchedRows(model, IdBatch({3, 9}));
  INFO(rows.status());
  REQUIRE(rows.ok());
  CHECK(*rows == std::vector<size_t>{3, 9});
  CheckRefused(model, IdBatch({kPlainRowsMax + 1}), "16777217 is a whole number beyond 2^24");
}

TEST_CASE("a fixed table that is too large is told one limit, whatever its size") {
  const auto refused = [](int64_t rows, const std::string& what) {
    const json model =
        SequentialJson({ShapedInput("id", "int64", {nullptr, 1}), TableJson(rows), FlattenJson()});
    CheckRefused(model, IdBatch({1}),
                 absl::StrCat("layer \"table\" (Embedding): ", what, kTableRowsMax));
  };
  refused(kTableRowsMax + 1, absl::StrCat("has ", kTableRowsMax + 1, " rows, more than "));
  refused(int64_t{1} << 40, "key \"input_dim\": must be at most ");
}

TEST_CASE("ids of a large table that the model computes are refused by layer") {
  const json model = Functional({RescaledOn("id"), TableOn("r"), FlattenOn("table")}, "flat");
  CheckRefused(model, IdBatch({1}),
               absl::StrCat("layer \"table\" (Embedding): has ", kRows,
                            " rows, and its ids are computed by the model"));
}

}  // namespace
}  // namespace paracord
