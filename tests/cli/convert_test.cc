// Tests `paracord convert` on small files. The TFRecord reader must be able to read the converted
// file with the printed job, and a refused conversion must keep the old file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/json_text.h"
#include "tests/data/source_testing.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// A job on two csv files with an arbitrary model.
class Example {
 public:
  Example() {
    directory_.Write("train.csv",
                     "a,b,city,y,w\n1,2,Ulm,0,0.5\n-3,4.25,\"a \"\"b\"\"\",1,2\n"
                     "0.1,1e20,K\xc3\xb6ln,2,1\n");
    directory_.Write("test.csv", "a,b,city,y,w\n7,8,Bonn,1,1\n");
    job_["model"] = {
        {"class_name", "Sequential"},
        {"config",
         {{"name", "m"}, {"layers", {{{"class_name", "Dense"}, {"config", {{"units", 3}}}}}}}}};
    job_["data"]["train"] = {{"format", "csv"}, {"files", "train.csv"}};
    job_["data"]["test"] = {{"format", "csv"}, {"files", "test.csv"}};
    directory_.Write("job.json", "");  // rewritten by Run
    for (json& data : job_["data"]) {
      data["features"] = {{{"column", "a"}, {"input", "in"}},
                          {{"column", "b"}, {"input", "in"}},
                          {{"column", "city"}, {"kind", "string"}, {"input", "city"}}};
      data["label"] = "y";
      data["weight"] = "w";
    }
    job_["loss"] = "sparse_categorical_crossentropy";
    job_["optimizer"] = "sgd";
  }

  json& train() { return job_["data"]["train"]; }
  json& job() { return job_; }
  std::string operator/(const std::string& name) const { return directory_ / name; }
  std::string Write(const std::string& name, const std::string& text) const {
    return directory_.Write(name, text);
  }

  // Runs `paracord convert` with `file` in the directory as --out.
  int Run(const std::string& file, std::vector<std::string> more = {}) {
    std::vector<std::string> args{directory_.Write("job.json", TextOf(job_)), "--out",
                                  directory_ / file};
    args.insert(args.end(), more.begin(), more.end());
    std::ostringstream out_stream, err_stream;
    const int code = RunConvert(args, out_stream, err_stream);
    out = out_stream.str();
    err = err_stream.str();
    return code;
  }

  std::string out, err;

 private:
  TestDirectory directory_;
  json job_;
};

DataSpec SpecOf(json options) {
  DataSpec spec;
  spec.format = options["format"];
  options.erase("format");
  spec.options = std::move(options);
  return spec;
}

// Reads the data source in the last line of the output.
Batch ReadBack(const std::string& out) {
  const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
  PosixFiles files;
  return ReadAllRecords(OpenDataSource(files, SpecOf(JsonOf(lines.back()))));
}

void CheckSame(const std::vector<Column>& a, const std::vector<Column>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].shape == b[i].shape);
    CHECK(a[i].values == b[i].values);
    CHECK(a[i].text == b[i].text);
    CHECK(a[i].strings == b[i].strings);
  }
}

TEST_CASE("convert writes the records of a source of any format, packed or not") {
  Example example;
  json expected = example.train();
  expected["files"] = example / "train.csv";
  PosixFiles files;
  const Batch before = ReadAllRecords(OpenDataSource(files, SpecOf(expected)));
  for (const std::string name : {"out.tfrecord", "out.tfrecord.gz"}) {
    const int code = example.Run(name);
    INFO(example.err);
    REQUIRE(code == 0);
    CHECK(absl::StrContains(example.out, absl::StrCat(name, ": 3 examples")));
    const Batch after = ReadBack(example.out);
    CHECK(after.examples == 3);
    CheckSame(before.inputs, after.inputs);
    CheckSame(before.targets, after.targets);
    CheckSame(before.weights, after.weights);
    const std::string bytes = *files.ReadWhole(example / name);
    CHECK((bytes[0] == '\x1f') == name.ends_with(".gz"));
  }
}

TEST_CASE("convert takes the test data, names what has no name, and keeps shapes") {
  Example example;
  REQUIRE(example.Run("t", {"--data", "test"}) == 0);
  CHECK(ReadBack(example.out).inputs[0].values == std::vector<float>{7, 8});
  // The images have 2 x 2 bytes.
  example.Write("x", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16) + "abcdefgh");
  example.Write("y", std::string("\0\0\x08\x01\0\0\0\x02\x03\x01", 10));
  example.train() = {{"format", "idx"}, {"features", "x"}, {"labels", "y"}};
  example.job()["data"].erase("test");
  REQUIRE(example.Run("images") == 0);
  const Batch images = ReadBack(example.out);
  CHECK(images.inputs[0].shape == std::vector<uint64_t>{2, 2});
  CHECK(images.inputs[0].values == std::vector<float>{97, 98, 99, 100, 101, 102, 103, 104});
  CHECK(images.targets[0].values == std::vector<float>{3, 1});
  CHECK(absl::StrContains(example.out, R"("name":"features")"));
  CHECK(absl::StrContains(example.out, R"("name":"label")"));
}

TEST_CASE("convert refuses with the reason, and leaves the old file alone") {
  Example example;
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    example.Write("old", "as it was");
    const int code = example.Run("old", std::move(more));
    CHECK(code == static_cast<int>(ExitCode::kConfiguration));
    INFO(example.err);
    CHECK(absl::StrContains(example.err, why));
    PosixFiles files;
    CHECK(*files.ReadWhole(example / "old") == "as it was");
    const std::vector<std::string> names = *files.List(example / "");
    for (const std::string& name : names) {
      CHECK_FALSE(absl::StrContains(name, ".tmp"));
    }
  };
  refused({"--data", "tests"}, "--data: must be train or test");
  refused({"--dta", "test"}, "--dta");
  const json good = example.job();
  example.job()["data"].erase("test");
  refused({"--data", "test"}, "--data: the job has no test data");
  example.job() = good;
  example.train()["files"] = "gone.csv";
  refused({}, "gone.csv");
  // The bad row lies beyond the rows that the reader checks on opening.
  std::string text = "a,b,city,y,w\n";
  for (int i = 0; i < 1500; ++i) text += i == 1400 ? "1,x,c,0,1\n" : "1,2,c,0,1\n";
  example.Write("late.csv", text);
  example.train()["files"] = "late.csv";
  refused({}, "late.csv row 1400");
  example.job() = good;
  for (const size_t i : {size_t{0}, size_t{1}}) example.train()["features"][i]["input"] = "same";
  example.train()["features"][2]["input"] = "other";
  example.train()["label"] = {{"column", "y"}, {"output", "same"}};
  refused({}, "two features would be called \"same\"");
  example.job() = good;
  CHECK(example.Run("no/such/file") == static_cast<int>(ExitCode::kConfiguration));
  CHECK(absl::StrContains(example.err, "no/such is not there"));
}

TEST_CASE("convert does not overwrite its inputs, whatever path names them") {
  Example example;
  std::filesystem::create_symlink(example / "train.csv", example / "link");
  std::filesystem::create_hard_link(example / "job.json", example / "hard");
  PosixFiles files;
  const std::string data = files.ReadWhole(example / "train.csv").value_or("");
  for (const char* input : {"train.csv", "job.json", "link", "hard"}) {
    CAPTURE(input);
    CHECK(example.Run(input) == static_cast<int>(ExitCode::kConfiguration));
    CHECK(absl::StrContains(example.err, absl::StrCat("--out: ", example / input, " is read")));
  }
  CHECK(files.ReadWhole(example / "train.csv").value_or("") == data);
  CHECK(example.Run("out.tfrecord") == 0);
  CHECK(example.Run("out.tfrecord") == 0);  // replaces the previous output
}

TEST_CASE("convert explains itself, and needs a job and a file") {
  std::ostringstream out, err;
  const std::vector<std::string> help{"--help"}, none{};
  CHECK(RunConvert(help, out, err) == 0);
  CHECK(absl::StartsWith(out.str(), "usage: paracord convert JOB"));
  CHECK(RunConvert(none, out, err) == static_cast<int>(ExitCode::kConfiguration));
}

}  // namespace
}  // namespace paracord
