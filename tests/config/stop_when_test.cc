// Tests when a job stops, and which of two evaluations is better.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "common/json_text.h"
#include "config/job.h"

namespace paracord {
namespace {

using nlohmann::json;

json StoppingJob() {
  return JsonOf(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"},
             "test": {"format": "idx", "features": "/d/tx", "labels": "/d/ty"}},
    "loss": "mse", "metrics": ["accuracy"], "optimizer": "sgd"})");
}

TEST_CASE(
    "whether larger is better is known for Keras' metrics, and is part of the canonical job") {
  const auto stop = [](const std::string& metric, const std::string& mode = "") {
    json document = StoppingJob();
    document["metrics"] = {"accuracy", "auc", "mae", {{"name", "recall"}, {"label", "found"}}};
    document["stop_when"] = {{"metric", metric}, {"patience", 3}, {"min_delta", 0.125}};
    if (!mode.empty()) document["stop_when"]["mode"] = mode;
    const absl::StatusOr<Job> job = ParseJob(TextOf(document));
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    CHECK(ParseJob(JobToJson(*job))->stop_when == job->stop_when);
    CHECK(job->stop_when->patience == 3);
    CHECK(job->stop_when->min_delta == 0.125);
    return job->stop_when->larger_is_better ? "max" : "min";
  };
  CHECK(stop("loss") == std::string("min"));
  CHECK(stop("mae") == std::string("min"));
  CHECK(stop("accuracy") == std::string("max"));
  CHECK(stop("price_auc") == std::string("max"));
  CHECK(stop("found") == std::string("max"));
  CHECK(stop("found", "min") == std::string("min"));
  CHECK(stop("loss", "max") == std::string("max"));
  json document = StoppingJob();
  document["stop_when"] = {{"metric", "loss"}, {"restore_best", true}};
  CHECK(ParseJob(TextOf(document))->stop_when->restore_best);
  document["stop_when"]["patience"] = 2;
  document["evaluate"] = {{"every_epochs", 0}};
  CHECK(absl::StrContains(ParseJob(TextOf(document)).status().message(),
                          "stop_when.patience: counts evaluations"));
}

}  // namespace
}  // namespace paracord
