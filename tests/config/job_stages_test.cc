#include "config/job_stages.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/strategy.h"
#include "tests/batches.h"

namespace paracord {
namespace {

absl::StatusOr<Job> StagesJobWith(const std::string& keys) {
  nlohmann::json document = JsonOf(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"}},
    "loss": "mse", "optimizer": "sgd", "accumulate": 4})");
  document.update(JsonOf(keys));
  return ParseJob(TextOf(document));
}

std::string StagesProblemOf(const std::string& keys) {
  return std::string(StagesJobWith(keys).status().message());
}

TEST_CASE("a job says how many stages its model has, or with which layers they begin") {
  const Job whole = StagesJobWith("{}").value();
  CHECK(whole.guarantees.stages == StagesSpec());
  CHECK_FALSE(JsonOf(JobToJson(whole)).contains("stages"));
  CHECK(StagesJobWith(R"({"stages": null})")->guarantees.stages.count == 1);

  const Job two = StagesJobWith(R"({"stages": 2})").value();
  CHECK(two.guarantees.stages == StagesSpec{.count = 2, .begins = {}});
  CHECK(JobToJson(ParseJob(JobToJson(two)).value()) == JobToJson(two));

  const Job named = StagesJobWith(R"({"stages": ["b", "d"]})").value();
  CHECK(named.guarantees.stages == StagesSpec{.count = 3, .begins = {"b", "d"}});
  CHECK(JobToJson(ParseJob(JobToJson(named)).value()) == JobToJson(named));
  CHECK(CheckResumable(whole, named, PlanOf(1, 1, 4)).ToString() == "OK");
}

TEST_CASE("stages that are no cut are refused") {
  for (const char* value : {"0", "1", "65", "2.5", "\"two\"", "{}", "true"}) {
    CAPTURE(value);
    CHECK(StagesProblemOf(absl::StrCat(R"({"stages": )", value, "}"))
              .find("stages: must be a number from 2 to 64 or a list of layers, is ") == 0);
  }
  CHECK(StagesProblemOf(R"({"stages": []})") == "stages: must name 1 to 63 layers, names 0");
  CHECK(StagesProblemOf(R"({"stages": ["a", 3]})") == "stages: must have names of layers, has 3");
  CHECK(StagesProblemOf(R"({"stages": ["a", "b", "a"]})") == "stages: names \"a\" twice");
}

TEST_CASE("keys that do not fit stages are named beside them") {
  CHECK(StagesProblemOf(R"({"stages": 2, "accumulate": 1})") ==
        "stages: computes the slices of a batch side by side, and with `accumulate` 1 a batch has "
        "one: give accumulate 8, say, or leave stages out");
  for (const char* strategy : {"mirrored", "central_storage"}) {
    CHECK(StagesProblemOf(absl::StrCat(R"({"stages": 2, "strategy": ")", strategy, "\"}")) ==
          absl::StrCat("stages: has all devices of a worker compute one batch, and with "
                       "`strategy` \"",
                       strategy, "\" each computes one of its own: leave one of the two out"));
  }
  for (const char* strategy : {"parameter_server", "one_device", "multi_worker_mirrored"}) {
    CHECK(StagesJobWith(absl::StrCat(R"({"stages": 2, "strategy": ")", strategy, "\"}")).ok());
  }
  CHECK(StagesProblemOf(R"({"stages": 2, "consistency": "sync",
                            "cross_device_ops": "hierarchical_copy"})") ==
        "stages: has all devices of a worker compute one batch, and `cross_device_ops` says how "
        "they add up several: leave one of the two out");
  CHECK(StagesProblemOf(R"({"stages": 2, "accumulate": 1, "optimizer": "sgd", "loss": null,
                            "model": {"program": "process", "command": ["python3", "a.py"]}})")
            .find("stages: cuts a model of Keras layers, and the job's `model` is a program") !=
        std::string::npos);
}

TEST_CASE("the devices of a worker that computes stages are one for its strategy") {
  for (const uint32_t stages : {1u, 4u}) {
    const auto read = [&](std::span<const std::string> settings) -> absl::StatusOr<Job> {
      Job job;
      if (!settings.empty()) job.guarantees.consistency = "sync";  // set by the strategy
      job.guarantees.stages.count = stages;
      return job;
    };
    CHECK(ReadJobIn({0, 1, 4}, {}, read)->strategy.name ==
          (stages == 1 ? "mirrored" : "one_device"));
  }
}

}  // namespace
}  // namespace paracord
