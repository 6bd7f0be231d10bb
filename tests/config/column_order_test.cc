// Columns of arrays keep the order of their declaration in a job.
#include "config/column_order.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/files.h"
#include "common/json_text.h"
#include "config/job.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr char kProgram[] = R"({"program": "process", "command": ["p"]})";
constexpr char kKeras[] = R"({"class_name": "Sequential", "config": {"layers": []}})";

Job JobOf(const std::string& data, const std::vector<std::string>& settings = {},
          const char* model = kProgram) {
  const TestDirectory directory;
  PosixFiles files;
  const std::string text =
      std::string(R"({"name": "j", "loss": "mse", "optimizer": "sgd", "model": )") + model +
      R"(, "data": )" + data + "}";
  const auto job = ReadJobFile(files, directory.Write("job.json", text), settings);
  INFO(job.status());
  REQUIRE(job.ok());
  return *job;
}

// Returns the order of features in the job's sources.
json OrderOf(const Job& job) {
  const auto of = [](const json& source) { return source.value("order", json()); };
  if (!job.train.options.contains("mix")) return of(job.train.options);
  json all = json::array();
  for (const json& each : job.train.options["mix"]) all.push_back(of(each));
  return all;
}

TEST_CASE("the order in which a job declares the columns of arrays travels with it") {
  const Job job =
      JobOf(R"({"train": {"format": "npy", "features": {"b": "/b", "c": "/c", "a": "/a"},
                                      "labels": {"z": "/z", "y": "/y"}, "weights": "/w"}})");
  const json order = {{"features", {"b", "c", "a"}}, {"labels", {"z", "y"}}};
  CHECK(OrderOf(job) == order);
  const auto again = ParseJob(JobToJson(job));
  REQUIRE(again.ok());
  CHECK(OrderOf(*again) == order);
}

TEST_CASE("columns that are sorted by name need no order, so that such a job stays as it was") {
  for (const char* features : {R"("/x")", R"({"a": "/a", "b": "/b"})", R"({"b": "/b"})"}) {
    const Job job =
        JobOf(std::string(R"({"train": {"format": "npy", "labels": "/y", "features": )") +
              features + "}}");
    CHECK(OrderOf(job) == json());
  }
}

TEST_CASE("the sources of a mix and the test data have the order of the first training data") {
  const Job job = JobOf(R"({
      "test": {"format": "npz", "file": "/t", "labels": "y", "features": {"a": "a", "b": "b"}},
      "train": {"mix": [
          {"format": "npz", "file": "/1", "labels": "y", "features": {"b": "b", "a": "a"}},
          {"format": "npz", "file": "/2", "labels": "y", "features": {"a": "a", "b": "b"}}]}})");
  const json order = {{"features", {"b", "a"}}};
  CHECK(OrderOf(job) == json::array({order, order}));
  CHECK(job.test->options["order"] == order);
}

TEST_CASE("a setting may declare columns, and a source may say their order itself") {
  const std::string data = R"({"train": {"format": "npy", "labels": "/y",
                                         "features": {"a": "/a", "b": "/b"}}})";
  const json order = {{"features", {"b", "a"}}};
  CHECK(OrderOf(JobOf(data, {R"(data.train.features={"b": "/b", "a": "/a"})"})) == order);
  CHECK(OrderOf(JobOf(data, {R"(data.train.order.features=["b", "a"])"})) == order);
  CHECK(OrderOf(JobOf(data, {R"(data.train.features.c=/c)"})) == json());
  CHECK(OrderOf(JobOf(data, {R"(data.train.order=3)"})) == 3);  // refused later, by the reader
}

TEST_CASE("on resume the order of columns cannot change, unless the model knows their names") {
  const auto check = [](const char* model) {
    const Job before = JobOf(R"({"train": {"format": "npy", "labels": "/y",
                                           "features": {"a": "/a", "b": "/b"}}})",
                             {}, model);
    const Job now = JobOf(R"({"train": {"format": "npy", "labels": "/y",
                                        "features": {"b": "/b", "a": "/a"}}})",
                          {}, model);
    return std::string(CheckResumable(before, now, PlanOf(1, 1, 4)).message());
  };
  CHECK(absl::StrContains(check(kProgram), "data.train.order: was null and is now"));
  CHECK(check(kKeras) == "");
}

TEST_CASE("long names and deep objects of a job give no order, and take no time") {
  KeyOrder order;
  const std::string name(1000, 'k');
  REQUIRE(ParseJson(R"({"b": 1, "a": {"y": 2, "x": {}}, ")" + name + R"(": {"c": 3}})", 1 << 20, 64,
                    &order)
              .ok());
  CHECK(order == KeyOrder{{"", {"b", "a", name}}, {"a", {"y", "x"}}});
}

}  // namespace
}  // namespace paracord
