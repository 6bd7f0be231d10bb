// A problem of a job file names the wrong file, and is reported once.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json_text.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

json Minimal() {
  return JsonOf(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"},
             "test": {"format": "idx", "features": "/d/x", "labels": "/d/y"}},
    "loss": "mse", "metrics": ["accuracy"], "optimizer": "sgd"})");
}

TEST_CASE("a problem of a job file is reported once") {
  for (const auto& [key, value] : {std::pair<std::string, json>("loss", 5),
                                   {"stop_when", {{"metric", "acuracy"}, {"at_least", 0.5}}}}) {
    CAPTURE(key);
    json document = Minimal();
    document[key] = value;
    Problems problems;
    const TestDirectory directory;
    PosixFiles files;
    const std::string path = directory.Write("job.json", TextOf(document));
    const std::optional<Job> job = ReadJobFile(files, path, {}, problems);
    REQUIRE(job.has_value());
    CAPTURE(problems.lines());
    CHECK(problems.lines().size() == 1);
    CHECK_FALSE(job->stop_when.has_value());  // whoever builds the model would report it again
    const absl::Status named = ReadJobFile(files, path).status();
    CHECK(named.message() == path + ": " + problems.lines()[0]);
  }
}

TEST_CASE("settings count as if they stood in the file") {
  const TestDirectory directory;
  PosixFiles files;
  json document = Minimal();
  document["steps"] = 7;
  const std::string path = directory.Write("job.json", TextOf(document));
  const std::vector<std::string> settings = {"epochs=3",
                                             "optimizer.learning_rate=0.5",
                                             "data.train.scale=2",
                                             "data.train.features=x",
                                             "wire=bf16",
                                             "checkpoint.keep=9",
                                             "checkpoint.full_every=10",
                                             "metrics=[\"mse\"]",
                                             "name=\"5\"",
                                             "seed=1",
                                             "data.test=null",
                                             "name=a=b",
                                             "seed=2"};
  const absl::StatusOr<Job> job = ReadJobFile(files, path, settings);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  CHECK(job->epochs == 3);
  CHECK_FALSE(job->steps.has_value());
  CHECK(job->optimizer.name == "sgd");
  CHECK(job->optimizer.options["learning_rate"] == 0.5);
  CHECK(job->train.options["scale"] == 2);
  CHECK(job->train.options["features"] == directory / "x");
  CHECK(job->wire == "bf16");
  CHECK(job->checkpoint.keep == 9);
  CHECK(job->checkpoint.full_every == 10);
  CHECK(job->metrics.at(0).name == "mean_squared_error");
  CHECK_FALSE(job->test.has_value());
  CHECK(job->name == "a=b");
  CHECK(job->seed == 2);
  for (const auto& [setting, epochs] : {std::pair("epochs=null", 1u), {"steps=null", 5u}}) {
    document.erase("steps");
    document.erase("epochs");
    document[setting[0] == 's' ? "epochs" : "steps"] = 5;
    const std::string other = directory.Write("other.json", TextOf(document));
    const std::vector<std::string> none = {setting, "metrics.0=mse"};
    const absl::StatusOr<Job> left = ReadJobFile(files, other, none);
    REQUIRE(left.ok());
    CHECK(left->epochs == epochs);
    CHECK(left->steps.has_value() == (setting[0] == 'e'));
    CHECK(left->metrics.at(0).name == "mean_squared_error");
  }
}

TEST_CASE("a --set that cannot be applied is named") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string path = directory.Write("job.json", TextOf(Minimal()));
  for (const auto& [setting, expected] :
       {std::pair("epochs", "--set: \"epochs\" must be KEY=VALUE"),
        {"=3", "must be KEY=VALUE"},
        {"a..b=3", "must be KEY=VALUE"},
        {"epochs=three", "epochs: must be"},
        {"epoch=3", "unknown key; did you mean `epochs`?"},
        {"metrics.x=3", "\"metrics.x=3\" cannot be set: there is no metrics.x"},
        {"metrics.1=mse", "\"metrics.1=mse\" cannot be set: there is no metrics.1"},
        {"name.x=3", "\"name.x=3\" cannot be set: name is \"j\""},
        {"name=\xff", "is not UTF-8"}}) {
    CAPTURE(setting);
    const std::vector<std::string> settings = {setting};
    const std::string message(ReadJobFile(files, path, settings).status().message());
    CAPTURE(message);
    CHECK(absl::StrContains(message, expected));
  }
  std::string deep = "data.train";
  for (int i = 0; i < 30000; ++i) deep += ".a";
  const std::vector<std::string> settings = {deep + "=1"};
  CHECK(absl::StrContains(ReadJobFile(files, path, settings).status().message(), "too deeply"));
}

TEST_CASE("a job or model file that cannot be read or parsed is named") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string missing = directory / "none.json";
  CHECK(absl::StrContains(ReadJobFile(files, missing).status().message(), missing));
  const std::string broken = directory.Write("broken.json", "{\"name\": \n oops}");
  CHECK(absl::StrContains(ReadJobFile(files, broken).status().message(),
                          broken + ": parse error at line 2"));
  Problems problems;  // the caller names the file
  CHECK_FALSE(ReadJobFile(files, broken, {}, problems).has_value());
  CHECK(absl::StartsWith(problems.lines().at(0), "parse error at line 2"));
  json document = Minimal();
  document["model"] = "m.json";
  const std::string path = directory.Write("job.json", TextOf(document));
  CHECK(absl::StrContains(ReadJobFile(files, path).status().message(), directory / "m.json"));
  for (const char* text : {"", "[]", "PK\x03\x04", "{\"a\": 1, \"a\": 2}"}) {
    directory.Write("m.json", text);
    CHECK(absl::StrContains(ReadJobFile(files, path).status().message(),
                            "model: " + (directory / "m.json")));
  }
}

TEST_CASE("the numbers of Python's JSON that are not finite are read, and travel") {
  const TestDirectory directory;
  PosixFiles files;
  json document = Minimal();
  document["model"] = "m.json";
  const std::string path = directory.Write("job.json", TextOf(document));
  directory.Write("m.json", R"({"class_name": "Sequential", "NaN": "-Infinity \" NaN",
                                "config": [-Infinity, Infinity,NaN , 1, "Infinity"]})");
  const absl::StatusOr<Job> job = ReadJobFile(files, path);
  CAPTURE(job.status().ToString());
  REQUIRE(job.ok());
  const absl::StatusOr<Job> again = ParseJob(JobToJson(*job));  // a worker receives this form
  CAPTURE(again.status().ToString());
  REQUIRE(again.ok());
  for (const Job& one : {*job, *again}) {
    const json& list = one.model["config"];
    CHECK(list[0].get<double>() == -std::numeric_limits<double>::infinity());
    CHECK(list[1].get<double>() == std::numeric_limits<double>::infinity());
    CHECK(std::isnan(list[2].get<double>()));
    CHECK(list[3] == 1);
    CHECK(list[4] == "Infinity");
    CHECK(one.model["NaN"] == "-Infinity \" NaN");
  }
  CHECK(CheckResumable(*job, *again, PlanOf(1, 1, 4)).ToString() == "OK");
  CHECK(JobToJson(*job) == JobToJson(*again));

  for (const auto& [text, problem] :
       {std::pair("{\"a\": [NaN, Infinity, oops]}", "column 23"),
        std::pair("{Infinity: 1}", "a key must be a string"),
        std::pair("{\"a\": 1Infinity}", "parse error"), std::pair("{\"a\": -NaN}", "parse error"),
        std::pair("{\"a\": NaNs}", "parse error"), std::pair("{\"a\": NaN", "parse error")}) {
    CAPTURE(text);
    directory.Write("m.json", text);
    CHECK(absl::StrContains(ReadJobFile(files, path).status().message(), problem));
  }
  const absl::Status rate =
      ReadJobFile(files, path, std::vector<std::string>{"failures.rejected_max=NaN"}).status();
  CHECK(absl::StrContains(rate.message(),
                          "failures.rejected_max: must be a number from 0 to 1, is NaN"));
}

TEST_CASE("on resume the initial weights may lie in another folder, but are no others") {
  const auto check = [](const std::optional<std::string>& before_file,
                        const std::optional<std::string>& now_file) {
    Job before = ParseJob(TextOf(Minimal())).value();
    Job now = before;
    before.initial_weights.file = before_file;
    now.initial_weights.file = now_file;
    return std::string(CheckResumable(before, now, PlanOf(1, 1, 4)).message());
  };
  CHECK(check("/run/initial.safetensors", "/new/run/initial.safetensors").empty());
  CHECK(check("/w.safetensors", "s3://bucket/w.safetensors").empty());
  CHECK(check("/run/a.safetensors", "/run/b.safetensors") ==
        R"(initial_weights: was "/run/a.safetensors" and is now "/run/b.safetensors", )"
        "but cannot change on resume");
  CHECK(absl::StrContains(check(std::nullopt, "/run/a.safetensors"), "initial_weights: was null"));
  CHECK(absl::StrContains(check("/run/a.safetensors", std::nullopt), "and is now null"));
}

TEST_CASE("options of an optimizer without its name lie over the compiled optimizer") {
  const TestDirectory directory;
  PosixFiles files;
  json document = Minimal();
  document.erase("optimizer");
  document["model"]["compile_config"]["optimizer"] = {
      {"class_name", "Adam"}, {"config", {{"learning_rate", 0.001}, {"beta_1", 0.8}}}};
  const std::string path = directory.Write("job.json", TextOf(document));
  const std::vector<std::string> settings = {"optimizer.learning_rate=0.5"};
  const absl::StatusOr<Job> job = ReadJobFile(files, path, settings);
  CAPTURE(job.status().ToString());
  REQUIRE(job.ok());
  CHECK(job->optimizer.name == "adam");
  CHECK(job->optimizer.options == json({{"learning_rate", 0.5}, {"beta_1", 0.8}}));
  // An optimizer with a name takes nothing from the compiled one.
  const auto named = ReadJobFile(files, path, std::vector<std::string>{"optimizer.name=sgd"});
  CHECK(named->optimizer.options == json::object());
  document["model"].erase("compile_config");
  directory.Write("job.json", TextOf(document));
  CHECK(ReadJobFile(files, path, settings).status().message() ==
        path + ": optimizer.name: is missing");
}

TEST_CASE("a job whose file was renamed is told how it keeps its name") {
  Job before = ParseJob(TextOf(Minimal())).value();
  Job now = before;
  now.name = "renamed";
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 4)).message() ==
        R"(name: was "j" and is now "renamed", but cannot change on resume (the name of the )"
        R"(job's file, unless the file has the key: write "name": "j" there, or --set name=j))");
}

TEST_CASE("a strategy that changes the consistency of a job that goes on is named") {
  Job before = ParseJob(TextOf(Minimal())).value();
  Job now = before;
  before.guarantees.strategy = "parameter_server";
  now.guarantees.strategy = "mirrored";
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 4)).ok());
  now.guarantees.consistency = "sync";
  const std::string said(CheckResumable(before, now, PlanOf(1, 1, 4)).message());
  CHECK(absl::StrContains(said, R"(strategy: was "parameter_server" and is now "mirrored", which )"
                                "changes `consistency`"));
  CHECK(absl::StrContains(said, "consistency: was \"async\" and is now \"sync\""));
}

TEST_CASE("a model that is given as a job is called one, with the command that writes a job") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string zip = directory.Write("m.keras", "PK\x03\x04\n{\n\"");
  const std::string text = directory.Write("model.json", TextOf(Minimal()["model"]));
  for (const std::string& path : {zip, text}) {
    CHECK(ReadJobFile(files, path).status().message() ==
          path + ": is a model of Keras, and no job: `paracord init " + path +
              " DATA` writes a job");
  }
  const std::string none = directory / "none.keras";
  CHECK_FALSE(absl::StrContains(ReadJobFile(files, none).status().message(), "model of Keras"));
}

TEST_CASE("a byte-order mark is no part of a job or model file") {
  const TestDirectory directory;
  PosixFiles files;
  json document = Minimal();
  directory.Write("m.json", "\xef\xbb\xbf" + TextOf(document["model"]));
  document["model"] = "m.json";
  const std::string path = directory.Write("job.json", "\xef\xbb\xbf" + TextOf(document));
  CHECK(ReadJobFile(files, path).status() == absl::OkStatus());
}

TEST_CASE("a job whose path cannot travel as JSON is refused by name") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string path = directory.Write("caf\xe9.json", TextOf(Minimal()));
  const std::string message(ReadJobFile(files, path).status().message());
  CHECK(message == path + ": the path is not UTF-8: give the job another directory or name");
}

}  // namespace
}  // namespace paracord
