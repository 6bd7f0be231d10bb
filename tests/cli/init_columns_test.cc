// Tests which columns of a CSV `paracord init` takes for features and for labels.
#include <catch2/catch.hpp>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "tests/cli/init_models.h"
#include "tests/cli/ran.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns the job that init writes for a model and a CSV, and what it says.
std::pair<json, std::string> InitOf(const TestDirectory& directory, const std::string& model,
                                    const std::string& rows) {
  PosixFiles files;
  const std::string out = directory / "init.json";
  std::remove(out.c_str());
  const Ran ran = Run(RunInit, {directory.Write("model.json", model),
                                directory.Write("rows.csv", rows), "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(files.ReadWhole(out).ok());
  return {JsonOf(*files.ReadWhole(out)), ran.err};
}

TEST_CASE("init leaves out the column without a name that pandas writes in front") {
  TestDirectory directory;
  std::string rows = ",a,b,target\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&rows, i == 3 ? "x" : "7", ",", i % 5, ",", i % 7, ",", i, "\n");
  }
  const auto [job, said] = InitOf(directory, DenseModel(2), rows);
  const json features = job["data"]["train"]["features"];
  REQUIRE(features.size() == 2);
  CHECK(features[0]["column"] == "a");
  CHECK(features[1]["column"] == "b");
  CHECK(Has(said, "the first column, which has no name: left out, since it numbers the rows"));
  CHECK_FALSE(Has(said, "warning"));
  const Ran few = Run(RunInit, {directory.Write("model.json", DenseModel(3)),
                                directory / "rows.csv", "--out", directory / "3.json"});
  CHECK(few.code == 2);
  CHECK(Has(few.err, "2 columns are left for it, without the first column, which has no name:"));
  const Ran later =
      Run(RunInit, {directory / "model.json", directory.Write("rows.csv", "a,,target\n1,2,3\n"),
                    "--out", directory / "3.json"});
  CHECK(Has(later.err, "its first line does not name columns (\"\")"));
}

TEST_CASE("init takes no row number for a feature, whatever the name of its column") {
  TestDirectory directory;
  const auto rows_of = [](const std::string& name, int records, auto&& number) {
    std::string rows = name + ",a,b,target\n";
    for (int i = 0; i < records; ++i) {
      absl::StrAppend(&rows, number(i), ",", i % 5, ",", i % 7, ",", i, "\n");
    }
    return rows;
  };
  const auto shuffled = [](int i) { return 500 + i * 7 % 30; };
  const auto counted = [](int i) { return 5 + i; };
  for (const std::string name : {"person id", "index", "uid", "key", "Unnamed: 0", "Key", "a-id"}) {
    INFO(name);
    const auto [job, said] = InitOf(directory, DenseModel(2), rows_of(name, 30, shuffled));
    CHECK(job["data"]["train"]["features"][0]["column"] == "a");
    CHECK(Has(said, name + ": left out, since it has another whole number in each row"));
  }
  const auto [job, said] = InitOf(directory, DenseModel(2), rows_of("n", 30, counted));
  CHECK(job["data"]["train"]["features"][0]["column"] == "a");
  CHECK(job["data"]["train"]["label"] == "target");  // which counts the rows, and is named
  CHECK(Has(said, "n: left out, since it has another whole number in each row"));
  // Other numbers of that name, few records, and an input of the name.
  const auto first = [&](const std::string& rows) {
    return InitOf(directory, DenseModel(3), rows).first["data"]["train"]["features"][0]["column"];
  };
  CHECK(first(rows_of("n", 30, shuffled)) == "n");
  CHECK(first(rows_of("n", 9, counted)) == "n");
  CHECK(first(rows_of("key", 30, [](int i) { return i / 2; })) == "key");
  std::string model = DenseModel(1);
  model.replace(model.find("\"in\""), 4, "\"n\"");
  CHECK(InitOf(directory, model, rows_of("n", 30, counted))
            .first["data"]["train"]["features"][0]["column"] == "n");
}

// Returns a model of two numbers with the outputs `hours` and `rich`.
json TwoOutputs() {
  const json layers = {
      KerasInput("in", 2, "float32"), LayerCall("Dense", {{"name", "hours"}, {"units", 1}}, {"in"}),
      LayerCall("Dense", {{"name", "rich"}, {"units", 1}, {"activation", "sigmoid"}}, {"in"})};
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers", layers},
            {"input_layers", {{"in", 0, 0}}},
            {"output_layers", {{"hours", 0, 0}, {"rich", 0, 0}}}}}};
}

TEST_CASE("init gives each of several outputs the label of its name") {
  TestDirectory directory;
  std::string rows = "a,rich,b,hours\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&rows, i % 5, ",", i % 2 == 0 ? "no" : "yes", ",", i % 7, ",", i * 3, "\n");
  }
  json model = TwoOutputs();
  const json labels = {{{"column", "hours"}, {"output", "hours"}},
                       {{"column", "rich"},
                        {"kind", "categorical"},
                        {"vocabulary", {"no", "yes"}},
                        {"output", "rich"}}};
  const auto [job, said] = InitOf(directory, TextOf(model), rows);
  CHECK(job["data"]["train"]["label"] == labels);
  CHECK(job["loss"] == json({{"hours", "mse"}, {"rich", "binary_crossentropy"}}));
  CHECK(Has(said, "labels: hours, rich, by the names of the outputs"));
  CHECK(Has(said, "loss of rich: binary_crossentropy, by the last layer's activation (sigmoid)"));
  CHECK_FALSE(Has(said, "not used"));
  CHECK(Run(RunValidate, {directory / "init.json", "--batch"}).code == 0);

  for (const json& loss : {json({"mse", "binary_crossentropy"}),
                           json({{"hours", "mse"}, {"rich", "binary_crossentropy"}})}) {
    model["compile_config"] = {{"optimizer", "adam"}, {"loss", loss}};
    const json compiled = InitOf(directory, TextOf(model), rows).first;
    CHECK(compiled["data"]["train"]["label"] == labels);
    CHECK_FALSE(compiled.contains("loss"));
    CHECK(Run(RunValidate, {directory / "init.json", "--batch"}).code == 0);
  }
  model["compile_config"]["loss"] = {{"rich", "binary_crossentropy"}};  // hours learns nothing
  CHECK(InitOf(directory, TextOf(model), rows).first["data"]["train"]["label"] ==
        json::array({labels[1]}));

  const auto refused = [&](const std::string& text, std::vector<std::string> more) {
    std::vector<std::string> args = {directory.Write("model.json", TextOf(TwoOutputs())),
                                     directory.Write("rows.csv", text), "--out",
                                     directory / "none.json"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = Run(RunInit, args);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(Has(refused("a,b,hours,poor\n1,2,3,0\n", {}),
            "has no column rich, and each of the model's 2 outputs learns the column of its name: "
            "name it so; for others write \"label\" by hand, [{\"column\": COLUMN"));
  CHECK(Has(refused(rows, {"--label", "rich"}),
            "--label rich: the model has several outputs, whose labels are the columns of"));
  directory.Write("x.npy", Npy("<f4", std::vector<float>(20, 1)));
  directory.Write("y.npy", Npy("<f4", std::vector<float>(20, 1)));
  const Ran arrays = Run(RunInit, {directory / "model.json", directory / "x.npy", "--data",
                                   directory / "y.npy", "--out", directory / "none.json"});
  CHECK(arrays.code == 2);
  CHECK(Has(arrays.err, "the labels of one output, and the model has 2: write \"labels\""));
}

}  // namespace
}  // namespace paracord
