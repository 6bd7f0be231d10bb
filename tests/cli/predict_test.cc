// Tests `paracord predict` on checkpoints and on weight files, without a cluster.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "cli/commands.h"
#include "cli/predict_serve.h"
#include "cli/prediction_writer.h"
#include "cli/tensor_file.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/cli/ran.h"
#include "tests/example_job.h"

namespace paracord {
namespace {

using nlohmann::json;

Ran Predict(const std::vector<std::string>& args) { return Run(RunPredict, args); }

// Returns the example's images without labels.
std::string Images(char records) {
  std::string bytes("\0\0\x08\x03\0\0\0\0\0\0\0\x02\0\0\0\x02", 16);
  bytes[7] = records;
  for (int i = 0; i < 4 * records; ++i) bytes += static_cast<char>('a' + i);
  return bytes;
}

TEST_CASE("predict writes a row for each record that has no label, in their order") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  example.Commit(4, 2, {.bias = 2.5});
  const std::string dir = example.directory.path();
  const std::string expected = "dense.0,dense.1,dense.2\n2.5,0,0\n2.5,0,0\n2.5,0,0\n";
  Ran ran = Predict({"--dir", dir});  // reads the files of data.test without labels
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out == expected);
  // The checkpoint holds the job. The training data may be gone.
  for (const char* name : {"job.json", "model.json", "y", "x"}) {
    REQUIRE(example.files.RemoveTree(example.path(name)).ok());
  }
  example.Write("new", Images(5));
  const std::string out = example.path("scores.csv");
  ran = Predict({"--dir", dir, "--data", example.path("new"), "--out", out, "--columns", "row",
                 "--step=2", "--batch", "2"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out == out + ": 5 rows, by checkpoint step-2-g1-r1\n");
  CHECK(*example.files.ReadWhole(out) ==
        "row,dense.0,dense.1,dense.2\n0,1,0,0\n1,1,0,0\n2,1,0,0\n3,1,0,0\n4,1,0,0\n");
  const auto names = example.files.List(dir);
  for (const std::string& name : *names) CHECK_FALSE(absl::StrContains(name, ".tmp"));
}

TEST_CASE("predict writes JSON lines and arrays of NumPy") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 0.1f});
  const std::string dir = example.directory.path();
  Ran ran = Predict({"--dir", dir, "--format", "jsonl", "--columns", "row"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out.substr(0, ran.out.find('\n')) == R"({"row": "0", "dense": [0.1, 0, 0]})");
  ran = Predict({"--dir", dir, "--format", "csv.gz"});
  REQUIRE(ran.code == 0);
  CHECK(ran.out.starts_with("\x1f\x8b"));
  const std::string out = example.path("p.npy");
  REQUIRE(Predict({"--dir", dir, "--out", out}).code == 0);
  const std::string bytes = *example.files.ReadWhole(out);
  CHECK(Has(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }"));
  CHECK(bytes.size() == 128 + 36);
  float first = 0;
  std::memcpy(&first, bytes.data() + 128, sizeof first);
  CHECK(first == 0.1f);
  CHECK(Predict({"--dir", dir, "--out", out, "--columns", "row"}).code == 2);
}

TEST_CASE("a record that bad_records leaves out has a row of NaN among the predictions") {
  ExampleJob example;
  example.Write("m.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1], "name": "in"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 1}}]}})");
  const json csv = {{"format", "csv"},
                    {"files", "train.csv"},
                    {"features", "x"},
                    {"label", "y"},
                    {"bad_records", {{"skip", 5}}}};
  example.Write("job2.json", TextOf(json({{"model", "m.json"},
                                          {"batch", 2},
                                          {"data", {{"train", csv}}},
                                          {"loss", "mse"},
                                          {"optimizer", "sgd"}})));
  const std::vector<float> kernel = {2}, bias = {0};
  const std::string file = example.path("w.safetensors");
  const std::vector<NamedTensor> tensors = {{"dense/kernel", {1, 1}, kernel},
                                            {"dense/bias", {1}, bias}};
  REQUIRE(WriteTensors(example.files, file, tensors, {}).ok());
  example.Write("new.csv", "id,x\na,1\nb,word\nc,3\nd\ne,5\n");
  const Ran ran = Predict({"--weights", file, "--data", example.path("new.csv"), "--columns",
                           "row,id", example.path("job2.json")});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out == "row,id,dense\n0,a,2\n1,b,nan\n2,c,6\n3,,nan\n4,e,10\n");
  CHECK(Has(ran.err, "2 records could not be read, and the predictions there are NaN, first of " +
                         example.path("new.csv") + " row 1"));
}

TEST_CASE("predict takes a file of weights in place of a checkpoint, with the job that it is of") {
  ExampleJob example;
  const std::vector<float> kernel(12), bias = {0, 3, 0};
  const std::string file = example.path("w.safetensors");
  const std::vector<NamedTensor> tensors = {{"dense/kernel", {4, 3}, kernel},
                                            {"dense/bias", {3}, bias}};
  REQUIRE(WriteTensors(example.files, file, tensors, {}).ok());
  Ran ran = Predict({"--weights", file});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "--weights needs the JOB"));
  ran = Predict({"--weights", file, example.path("job.json")});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(Has(ran.out, "\n0,3,0\n"));
}

TEST_CASE("predict names what is wrong, and writes nothing then") {
  ExampleJob example;
  const std::string dir = example.directory.path(), out = example.path("p.csv");
  CHECK(Predict({"--dir", dir}).code == 5);
  example.Commit(2, 1, {.bias = 1});
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "needs --dir DIR, or --weights FILE"},
      {{"--dir", dir, "--out", example.path("p.txt")}, "ends in none of .csv"},
      {{"--dir", dir, "--format", "xml"}, "--format: xml is none of"},
      {{"--dir", dir, "--out", dir + "/no/p.csv"}, "--out: the directory"},
      {{"--dir", dir, "--out", example.path("summary.json"), "--format", "csv"},
       "belongs to the job"},
      {{"--dir", dir, "--data", example.path("none")}, "none"},
      {{"--dir", dir, "--columns", "id"}, "--columns: \"id\": only csv"},
      {{"--dir", dir, "--columns", "row,id,row"}, "--columns: names row twice"},
      {{"--dir", dir, "--set", "nme=1"}, "nme"},
  };
  for (const auto& [args, message] : wrong) {
    const Ran ran = Predict(args);
    CHECK(ran.code == 2);
    CHECK(Has(ran.err, message));
  }
  // A record of a wrong shape is refused before any output.
  example.Write("new", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x02", 12) + "abcd");
  CHECK(Predict({"--dir", dir, "--data", example.path("new"), "--out", out}).code == 2);
  CHECK_FALSE(example.files.Open(out).ok());
}

TEST_CASE("a frame that announces more than it brings takes no memory for what does not come") {
  ExampleJob example;
  PredictModelFlags flags;
  flags.job = example.path("job.json");
  const auto largest_kib = [] {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
  };
  const long before = largest_kib();
  std::istringstream in(std::string("\0\0\0\x40\0\0\0\0", 8) + "little");  // claims a size of 1 GiB
  std::ostringstream out, notes;
  ExitCode code = ExitCode::kDone;
  const absl::Status served = ServePredictions(flags, in, out, notes, code);
  CHECK(served.message() == "a request of 1073741824 bytes is no frame");
  CHECK(largest_kib() - before < 256 << 10);
}

TEST_CASE("predict copies columns, leaves labels out, and names the file and row of a bad record") {
  ExampleJob example;
  example.Write("train.csv", "id,y,a,b,c,d\n0,1,1,2,3,4\n1,2,1,2,3,4\n");
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "name": "in"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}})");
  example.Write("job.json", R"({"model": "model.json", "batch": 2, "data": {
      "train": {"format": "csv", "files": "train.csv", "features": ["a", "b", "c", "d"],
                "label": "y"}}, "optimizer": "sgd",
      "loss": {"name": "sparse_categorical_crossentropy", "from_logits": true}})");
  example.job = *ReadJobFile(example.files, example.path("job.json"));
  example.Commit(2, 1, {.bias = 1});
  const std::string dir = example.directory.path(), data = example.path("new.csv");
  example.Write("new.csv", "d,name,b,a,c\n4,\"x, \"\"y\"\"\",2,1,3\n4,z,2,1,3\n4,u,2,1,3\n");
  Ran ran = Predict({"--dir", dir});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "--data: is missing: the job has neither data.predict nor data.test"));
  ran = Predict({"--dir", dir, "--data", data, "--columns", "name,row,b"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(
      ran.out ==
      "name,row,b,dense.0,dense.1,dense.2\n\"x, \"\"y\"\"\",0,2,1,0,0\nz,1,2,1,0,0\nu,2,2,1,0,0\n");
  CHECK(Has(Predict({"--dir", dir, "--data", data, "--columns", "nam"}).err, "name"));

  std::string rows = "a,b,c,d\n";
  for (int i = 0; i < 1500; ++i) rows += "1,2,3,4\n";
  example.Write("new.csv", rows + "1,2,x,4\n1,2,3,4\n");
  const std::string out = example.path("p.csv");
  ran = Predict({"--dir", dir, "--data", data, "--out", out});
  CHECK(ran.code == 1);
  CHECK(Has(ran.err, "new.csv row 1500"));
  CHECK_FALSE(example.files.Open(out).ok());

  // data.predict describes the files; missing keys come from data.train.
  example.Write("new.csv", "a;b;c;d\n1;2;3;4\n");
  ran = Predict(
      {"--dir", dir, "--set", R"(data.predict={"files": ")" + data + R"(", "delimiter": ";"})"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out == "dense.0,dense.1,dense.2\n1,0,0\n");
}

class TextFile : public WriteFile {
 public:
  explicit TextFile(std::string& text) : text_(text) {}
  absl::Status Append(std::string_view bytes) override {
    text_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  std::string& text_;
};

TEST_CASE("numbers are the shortest text of a float32, and those that are none are told apart") {
  const std::vector<Column> outputs = {{"", {}, {0.1f, 16777216}},
                                       {"a,b", {2}, {NAN, -INFINITY, 1e-20f, 2}},
                                       {"m", {1, 2}, {1, 2, 3, 4}}};
  const std::vector<std::string> copied = {"é\"", "x\ny"};
  std::string csv, jsonl;
  const auto write = [&](PredictionFormat format, std::span<const Column> some, std::string& to) {
    PredictionTable table = {{"id"}, {some.begin(), some.end()}, 2};
    auto writer = MakePredictionWriter(
        format, table, [&](const std::string&) -> absl::StatusOr<std::unique_ptr<WriteFile>> {
          return std::make_unique<TextFile>(to);
        });
    if (!writer.ok()) return writer.status();
    REQUIRE((*writer)->Add(copied, some, 2).ok());
    return (*writer)->End();
  };
  REQUIRE(write(PredictionFormat::kCsv, std::span(outputs).first(2), csv).ok());
  CHECK(csv ==
        "id,prediction,\"a,b.0\",\"a,b.1\"\n\"é\"\"\",0.1,nan,-inf\n"
        "\"x\ny\",16777216,1e-20,2\n");
  REQUIRE(write(PredictionFormat::kJsonl, outputs, jsonl).ok());
  CHECK(jsonl ==
        "{\"id\": \"é\\\"\", \"prediction\": 0.1, \"a,b\": [null, null], \"m\": [[1, 2]]}\n"
        "{\"id\": \"x\\ny\", \"prediction\": 16777216, \"a,b\": [1e-20, 2], \"m\": [[3, 4]]}\n");
  const absl::Status refused = write(PredictionFormat::kCsv, outputs, csv);
  CHECK(Has(std::string(refused.message()), "output \"m\" has the shape (1, 2)"));
}

}  // namespace
}  // namespace paracord
