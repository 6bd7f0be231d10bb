// Tests the jobs that `paracord init` writes: `validate` must accept them, and `init` must print
// every guess.
#include <array>
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "tests/cli/init_models.h"
#include "tests/cli/ran.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a model of words, ids and numbers in the format of Keras 2.
json RecommenderModel() {
  json layers = {
      KerasInput("user", 1, "int64"),
      KerasInput("numbers", 2, "float32"),
      LayerCall("Embedding", {{"name", "users"}, {"input_dim", 100}, {"output_dim", 2}}, {"user"}),
      LayerCall("Flatten", {{"name", "flat"}}, {"users"}),
      LayerCall("Concatenate", {{"name", "all"}, {"axis", -1}}, {"flat", "numbers"}),
      LayerCall("Dense", {{"name", "out"}, {"units", 1}, {"activation", "sigmoid"}}, {"all"})};
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers", layers},
            {"input_layers", {{"user", 0, 0}, {"numbers", 0, 0}}},
            {"output_layers", {{"out", 0, 0}}}}}};
}

TEST_CASE(
    "init writes a job of a model and a CSV, which validate takes, and says what it guessed") {
  TestDirectory directory;
  PosixFiles files;
  const std::string model = directory.Write("model.json", TextOf(RecommenderModel()));
  std::string rows = "user;age;income;when;churn\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&rows, 1000 + i, ";", 20 + i * 7 % 40, ";",
                    i % 7 == 0 ? "NA" : absl::StrCat(i * 100), ";x;", i % 2 == 0 ? "no" : "yes",
                    "\n");
  }
  const std::string data = directory.Write("rows.csv", rows);
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {model, data, "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  CHECK(Has(ran.err, "label: churn (--label names another)"));
  CHECK(Has(ran.err, "delimiter: ;"));
  CHECK(Has(ran.err, "classes of churn, from 0 on: no, yes"));
  CHECK(Has(ran.err, "tables: users grows, since user has ids outside of its 100 rows"));
  CHECK(Has(ran.err, "loss: binary_crossentropy, by the last layer's activation (sigmoid)"));
  CHECK(Has(ran.err, "not used: when"));
  CHECK(Has(ran.err, "income: 6 of the first 40 values are missing, for which"));
  CHECK(Has(ran.out, "data.train: "));

  const json job = JsonOf(*files.ReadWhole(out));
  CHECK(job["model"] == "model.json");
  const json train = job["data"]["train"];
  CHECK(train["files"] == json({"rows.csv"}));
  CHECK(train["missing"] == json({"NA"}));
  REQUIRE(train["features"].size() == 3);
  CHECK(train["features"][0] == json({{"column", "user"}, {"input", "user"}, {"kind", "id"}}));
  CHECK(train["features"][1]["mean"] == 39.5);
  CHECK(train["features"][2].contains("default"));
  CHECK(train["label"]["vocabulary"] == json({"no", "yes"}));
  CHECK(job["tables"] == json({{"users", {{"kind", "growing"}, {"update", "lazy"}}}}));
  CHECK(job["optimizer"]["name"] == "adam");
  CHECK(job["data"]["test"]["part"]["from"] == 0.9);

  // `init` replaces no existing file.
  const Ran again = Run(RunInit, {model, data, "--out", out});
  CHECK(again.code == 2);
  CHECK(Has(again.err, "is there already"));
}

TEST_CASE("init takes a .keras file, and tests from a file whose name says so") {
  TestDirectory directory;
  PosixFiles files;
  const std::string golden = absl::StrCat(PARACORD_SOURCE_DIR, "/tests/golden/keras_tabular.keras");
  directory.Write("m.keras", *files.ReadWhole(golden));
  const std::string rows =
      "city,kind,user,text,a,b,bought\nUlm,c,7,the cat,1,2,0\nBonn,c,5,a mat,3,4,1\n";
  directory.Write("train.csv", rows);
  directory.Write("test.csv", rows);
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {directory / "m.keras", directory / "t*.csv", "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  const json job = JsonOf(*files.ReadWhole(out));
  CHECK(job["data"]["test"]["files"] == json({"test.csv"}));
  CHECK(job["data"]["train"]["label"] == "bought");
  CHECK_FALSE(job.contains("loss"));  // the model's compile_config has a loss
  // The model has a Normalization layer.
  CHECK_FALSE(job["data"]["train"]["features"][4].contains("mean"));
}

TEST_CASE("init makes ids of the words of the recommender's clicks, whose tables grow") {
  TestDirectory directory;
  PosixFiles files;
  const std::string example = absl::StrCat(PARACORD_SOURCE_DIR, "/examples/recommender/model.json");
  directory.Write("model.json", *files.ReadWhole(example));
  std::string rows = "user,item,clicked\n";
  for (int i = 0; i < 40; ++i)
    absl::StrAppend(&rows, "user-", i / 4, ",item-", i % 7, ",", i % 2, "\n");
  directory.Write("clicks.csv", rows);
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {directory / "model.json", directory / "clicks.csv", "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);  // exit code of validate
  CHECK(Has(ran.err, "user: the words become ids of 64 bits"));
  CHECK(Has(ran.err, "tables: item_vector grows, since item has words"));
  // The tables begin without rows: the Dense has the only parameters.
  CHECK(Has(ran.out, "all, of one example                         2  "));
  const json job = JsonOf(*files.ReadWhole(out));
  CHECK(job["data"]["train"]["features"] ==
        json({{{"column", "user"}, {"input", "user"}, {"kind", "id"}},
              {{"column", "item"}, {"input", "item"}, {"kind", "id"}}}));
  CHECK(job["data"]["train"]["label"] == "clicked");
  CHECK(job["tables"] == json({{"item_vector", {{"kind", "growing"}, {"update", "lazy"}}},
                               {"user_vector", {{"kind", "growing"}, {"update", "lazy"}}}}));
  CHECK(Run(RunValidate, {out, "--batch"}).code == 0);
}

TEST_CASE("init takes arrays by the names of the inputs, and grows tables for large ids") {
  TestDirectory directory;
  PosixFiles files;
  const std::string example = absl::StrCat(PARACORD_SOURCE_DIR, "/examples/recommender/model.json");
  directory.Write("model.json", *files.ReadWhole(example));
  std::vector<int64_t> users(20, 7), items(20, 999);
  users[3] = 123456789012345;
  directory.Write("user.npy", Npy("<i8", users));
  directory.Write("item.npy", Npy("<i8", items));
  directory.Write("clicked.npy", Npy("<f4", std::vector<float>(20, 1)));
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {directory / "model.json", directory / "*.npy", "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  const json job = JsonOf(*files.ReadWhole(out));
  CHECK(job["data"]["train"]["features"] == json({{"user", "user.npy"}, {"item", "item.npy"}}));
  CHECK(job["data"]["train"]["labels"] == "clicked.npy");
  CHECK(job["tables"] == json({{"user_vector", {{"kind", "growing"}, {"update", "lazy"}}}}));

  const std::array<char, 4> word = {'i', '1'};
  directory.Write("item.npy", Npy("|S4", std::vector<std::array<char, 4>>(20, word)));
  const Ran words =
      Run(RunInit, {directory / "model.json", directory / "*.npy", "--out", directory / "2"});
  CHECK(words.code == 2);
  CHECK(Has(words.err, "item.npy row 0"));
  CHECK(Has(words.err, "write the arrays as columns of a CSV, where init makes ids of words"));
  CHECK(
      Has(Run(RunInit, {directory / "model.json", directory / "user.npy", "--out", directory / "2"})
              .err,
          "none is named like item"));
}

TEST_CASE(
    "init makes a vector of words, bins for an Embedding behind a layer, and reads 7.0 as an id") {
  TestDirectory directory;
  PosixFiles files;
  json layers = {
      KerasInput("color", 3, "float32"),
      KerasInput("shop", 1, "int64"),
      KerasInput("film", 1, "int64"),
      LayerCall("Flatten", {{"name", "flat"}}, {"shop"}),
      LayerCall("Embedding", {{"name", "s"}, {"input_dim", 9}, {"output_dim", 2}}, {"flat"}),
      LayerCall("Embedding", {{"name", "f"}, {"input_dim", 9}, {"output_dim", 2}}, {"film"}),
      LayerCall("Flatten", {{"name", "s2"}}, {"s"}),
      LayerCall("Flatten", {{"name", "f2"}}, {"f"}),
      LayerCall("Concatenate", {{"name", "all"}, {"axis", -1}}, {"s2", "f2", "color"}),
      LayerCall("Dense", {{"name", "out"}, {"units", 1}}, {"all"})};
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"name", "m"},
                        {"layers", layers},
                        {"input_layers", {{"color", 0, 0}, {"shop", 0, 0}, {"film", 0, 0}}},
                        {"output_layers", {{"out", 0, 0}}}}}};
  directory.Write("m.json", TextOf(model));
  std::string rows = "film,color,shop,y\n";
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&rows, i % 3 == 0 ? "" : "123456789.0", ",", i % 2 == 0 ? "red" : "blue", ",s",
                    i, ",", i, "\n");
  }
  directory.Write("d.csv", rows);
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {directory / "m.json", directory / "d.csv", "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  const json job = JsonOf(*files.ReadWhole(out));
  const json features = job["data"]["train"]["features"];
  CHECK(features[0]["vocabulary"] == json({"blue", "red"}));
  CHECK(features[0]["one_hot"] == true);
  CHECK(features[0]["oov"] == 1);
  CHECK(features[1] ==
        json({{"column", "shop"}, {"input", "shop"}, {"kind", "hashed"}, {"bins", 9}}));
  CHECK(features[2]["kind"] == "id");
  CHECK(features[2]["default"] == "0");
  CHECK(job["tables"] == json({{"f", {{"kind", "growing"}, {"update", "lazy"}}}}));
}

TEST_CASE("init takes no label whose values the loss of two classes refuses") {
  TestDirectory directory;
  PosixFiles files;
  const std::string model = directory.Write("model.json", TextOf(RecommenderModel()));
  int jobs = 0;
  const auto label_of = [&](const std::string& header, auto&& row) {
    std::string rows = header + "\n";
    for (int i = 0; i < 40; ++i) absl::StrAppend(&rows, row(i), "\n");
    const std::string data = directory.Write("rows.csv", rows);
    const std::string out = directory / absl::StrCat("job", ++jobs, ".json");
    const Ran ran = Run(RunInit, {model, data, "--out", out});
    INFO(ran.out << ran.err);
    CHECK(ran.code == 0);
    const json label = JsonOf(*files.ReadWhole(out))["data"]["train"]["label"];
    return label.is_string() ? label.get<std::string>() : label["column"].get<std::string>();
  };
  // `income` is a usual name of a label, but not with these values.
  CHECK(label_of("user,income,debt,defaulted", [](int i) {
          return absl::StrCat(i, ",", 20000 + 2 * i, ",", 3 * i, ",", i % 2);
        }) == "defaulted");
  CHECK(label_of("user,income,debt,rate", [](int i) {
          return absl::StrCat(i, ",", i % 2 == 0 ? "<=50K" : ">50K", ",", 3 * i, ",", i * 2);
        }) == "income");
  CHECK(label_of("user,bought,income,debt", [](int i) {
          return absl::StrCat(i, ",", i % 2, ",", 20000 + 2 * i, ",", 3 * i);
        }) == "bought");
  CHECK(label_of("user,income,debt,defaulted,notes", [](int i) {  // without any notes
          return absl::StrCat(i, ",", 20000 + 2 * i, ",", 3 * i, ",", i % 2, ",");
        }) == "defaulted");
}

TEST_CASE("init leaves out a column that only numbers the rows, and says so") {
  TestDirectory directory;
  PosixFiles files;
  const std::string model = directory.Write("model.json", DenseModel(2));
  std::string rows = "customer_id,a,b,c,target\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&rows, 7000 + i, ",", i % 5, ",", i < 4 ? "" : absl::StrCat(i % 3), ",", i % 7,
                    ",", i, "\n");
  }
  const std::string data = directory.Write("rows.csv", rows);
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {model, data, "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  const json features = JsonOf(*files.ReadWhole(out))["data"]["train"]["features"];
  REQUIRE(features.size() == 2);
  CHECK(features[0]["column"] == "a");
  CHECK(features[1]["column"] == "b");
  CHECK(features[1]["default"] == 1);
  CHECK(Has(ran.err, "customer_id: left out, since it has another whole number in each row"));
  CHECK(
      Has(ran.err, "b: 4 of the first 30 values are missing, for which 1.0, their median, stands"));
  CHECK(Has(ran.err,
            "warning: the file has more columns of numbers than the model's inputs take: "
            "a, b were taken because they come first, and c not"));

  // The same model with other files: one with too few columns, and one with repeated ids.
  const auto run = [&](int numbers, const std::string& text) {
    return Run(RunInit, {directory.Write("model.json", DenseModel(numbers)),
                         directory.Write("rows.csv", text), "--out", directory / "other.json"});
  };
  const Ran few = run(3, "id,a,b,target\n1,2,3,0\n2,5,6,1\n");
  CHECK(few.code == 2);
  CHECK(Has(few.err, "input in takes 3 numbers, and 2 columns are left for it, without id"));
  std::string shops = "shop_id,a,b,target\n";
  for (int i = 0; i < 30; ++i) absl::StrAppend(&shops, i / 2, ",", 2 * i, ",", i % 4, ",", i, "\n");
  const Ran repeated = run(3, shops);
  INFO(repeated.err);
  CHECK(repeated.code == 0);
  CHECK_FALSE(Has(repeated.err, "left out"));
  CHECK_FALSE(Has(repeated.err, "warning: the file"));
}

TEST_CASE("init makes vectors of the words of a model that was never built") {
  TestDirectory directory;
  PosixFiles files;
  const std::string model = directory.Write(
      "model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
          {"class_name": "Dense", "config": {"name": "out", "units": 1}}]}})");
  std::string rows = "listing,price,district,y\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&rows, "l", i, ",", i * 1000, ",", i % 3 == 0 ? "Mitte" : "Nord", ",", i, "\n");
  }
  const std::string out = directory / "job.json";
  const Ran ran = Run(RunInit, {model, directory.Write("rows.csv", rows), "--out", out});
  INFO(ran.out << ran.err);
  REQUIRE(ran.code == 0);
  const json features = JsonOf(*files.ReadWhole(out))["data"]["train"]["features"];
  REQUIRE(features.size() == 2);
  CHECK(features[0]["mean"] == 19500);
  CHECK(features[1] == json({{"column", "district"},
                             {"kind", "categorical"},
                             {"vocabulary", {"Mitte", "Nord"}},
                             {"oov", 1},
                             {"one_hot", true}}));
  CHECK(Has(ran.err, "not used: listing, since these are no numbers"));
  CHECK(Has(ran.out, "(4, 1)"));  // the kernel: a number, two words, and a place for unknown ones
  CHECK_FALSE(Has(ran.err, "warning"));
}

TEST_CASE("init says of columns that are left why, and which input would take them") {
  TestDirectory directory;
  const std::string model = directory.Write("model.json", DenseModel(1));
  std::string rows = "listing,price,district,y\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&rows, "l", i, ",", i * 1000, ",", i % 3 == 0 ? "Mitte" : "Nord", ",", i, "\n");
  }
  const Ran ran =
      Run(RunInit, {model, directory.Write("rows.csv", rows), "--out", directory / "job.json"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(
      Has(ran.err,
          "not used: listing, district, since these are no numbers and no input has their name; an "
          "input of a column's name takes its words: as strings, as ids for an Embedding, or as "
          "vectors with one 1, of as many numbers as there are words (district has 2)"));
}

TEST_CASE("init says which input has no column, and what to do about words") {
  TestDirectory directory;
  const std::string model = directory.Write("model.json", TextOf(RecommenderModel()));
  const std::string out = directory / "job.json";
  const auto said = [&](const std::string& rows, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {model, directory.Write("d.csv", rows), "--out", out};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = Run(RunInit, args);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(Has(said("user,age,label\n1,2,0\n"), "input numbers takes 2 numbers, and 1 columns are"));
  CHECK(Has(said("user,numbers,label\n1,mia,0\n"),
            "column numbers has words (\"mia\"), and input numbers takes numbers"));
  CHECK(Has(said("user,a,b,label\n1,2,3,0\n", {"--label", "lable"}), "did you mean `label`"));
  CHECK(Has(said("1,2,3,0\n"), "its first line does not name columns"));
  CHECK(Has(said(std::string("PAR1\x15") + std::string(600, '\0')), "it is a Parquet file"));
}

}  // namespace
}  // namespace paracord
