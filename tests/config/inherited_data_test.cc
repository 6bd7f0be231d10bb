// Test data and prediction data inherit keys from the training data.
#include <catch2/catch.hpp>

#include "common/files.h"
#include "common/json_text.h"
#include "config/job.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

TEST_CASE("test and predict data take from the training data the keys that they lack") {
  const TestDirectory directory;
  PosixFiles files;
  const auto read = [&](const std::string& data) {
    const std::string path = directory.Write(
        "job.json",
        R"({"model": {"class_name": "Sequential", "config": {"layers": []}}, "data": )" + data +
            R"(, "loss": "mse", "optimizer": "sgd"})");
    absl::StatusOr<Job> job = ReadJobFile(files, path);
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    const absl::StatusOr<Job> again = ParseJob(JobToJson(*job));
    REQUIRE(again.ok());
    CHECK(JobToJson(*again) == JobToJson(*job));
    return *job;
  };
  Job job = read(R"({"train": {"format": "csv", "files": "a", "features": ["u", "v"], "label": "y",
                               "weight": "w", "part": {"to": 0.9}},
                     "test": {"files": "b", "features": "u", "weight": null},
                     "predict": {"files": ["c"]}})");
  CHECK(job.test->format == "csv");
  CHECK(job.test->options ==
        json({{"files", directory / "b"}, {"features", "u"}, {"label", "y"}, {"weight", nullptr}}));
  CHECK(job.predict->options == json({{"files", {directory / "c"}},
                                      {"features", {"u", "v"}},
                                      {"label", "y"},
                                      {"weight", "w"}}));
  CHECK(JobToJson(*ParseJob(JobToJson(job))) == JobToJson(job));

  // Files are inherited all or not at all. The order of columns is that of the training data.
  job = read(R"({"train": {"format": "npy", "features": {"b": "1", "a": "2"}, "labels": "3",
                           "weights": "4"},
                 "test": {"features": {"a": "5", "b": "6"}, "labels": "7"},
                 "predict": {"part": {"to": 0.5}}})");
  CHECK_FALSE(job.test->options.contains("weights"));
  CHECK(job.test->options["order"] == json({{"features", {"b", "a"}}}));
  CHECK(job.predict->options["labels"] == directory / "3");
  CHECK(job.predict->options["part"] == json({{"to", 0.5}}));

  job = read(R"({"train": {"format": "text", "files": "t", "window": 4},
                 "test": {"files": "u"}, "predict": {"format": "csv", "files": "c"}})");
  CHECK(job.test->options["vocabulary_from"] == directory / "t");
  CHECK(job.test->options["window"] == 4);
  CHECK(job.predict->options == json({{"files", directory / "c"}}));

  job = read(R"({"train": {"mix": [{"format": "csv", "files": "a", "label": "y"}]},
                 "test": {"format": "csv", "files": "b"}})");
  CHECK(job.test->options == json({{"files", directory / "b"}}));
}

TEST_CASE("what is predicted for may change on resume") {
  const absl::StatusOr<Job> before = ParseJob(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"}},
    "loss": "mse", "optimizer": "sgd"})");
  REQUIRE(before.ok());
  Job now = *before;
  now.predict = DataSpec{"csv", {{"files", "/new"}}};
  CHECK(CheckResumable(*before, now, PlanOf(1, 1, 1)).ok());
}

}  // namespace
}  // namespace paracord
