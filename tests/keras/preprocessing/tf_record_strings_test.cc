// String features of TFRecord files in models with preprocessing layers.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "data/example_writer.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "data/tf_example.h"
#include "keras/build.h"
#include "program/gradient_program.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

OpenedSource Open(Files& files, const json& options) {
  return OpenDataSource(files, {"tfrecord", JsonOf(TextOf(options))});
}

TEST_CASE("strings of TFRecords pass through the preprocessing layers of a model") {
  MemoryFiles files;
  std::vector<std::string> records;
  for (const char* city : {"Oslo", "Rome", "Bern", "Rome"}) {
    ExampleBuilder builder;
    builder.Bytes("city", city);
    builder.Ints("y", std::vector<int64_t>{1});
    records.push_back(builder.Take());
  }
  files.contents["/t"] = Container(records);
  const auto source = Open(
      files,
      {{"files", "/t"}, {"features", {{"name", "city"}, {"dtype", "string"}}}, {"label", "y"}});
  const Batch batch = ReadAllRecords(source);
  json model = JsonOf(R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1], "dtype": "string",
                                              "name": "city"}},
      {"class_name": "StringLookup", "config": {"name": "l", "output_mode": "one_hot",
          "num_oov_indices": 1, "vocabulary": ["Rome", "Oslo"]}},
      {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false}}]}})");
  Job job;
  job.model = std::move(model);
  job.loss.name = "mse";
  const auto program = BuildKerasProgram(job, (*source)->schema(), MakeCpuOps(1));
  INFO(program.status());
  REQUIRE(program.ok());
  const std::vector<float> kernel = {10, 20, 30};
  const std::vector<std::span<const float>> values = {kernel};
  const auto output = (*program)->Predict(batch, values);
  INFO(output.status());
  REQUIRE(output.ok());
  CHECK((*output)[0].values == Values{30, 20, 10, 20});
}

}  // namespace
}  // namespace paracord
