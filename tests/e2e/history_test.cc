// Checks the history of epochs against a replay by hand. Each update of the counting job adds 1 to
// every output, so a batch computed after u updates has exactly the loss kTarget - u.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/train.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kHistoryLanes = 3;
constexpr uint64_t kHistoryRounds = (kBatchesPerEpoch + kHistoryLanes - 1) / kHistoryLanes;

// Returns the loss of an epoch in which batch b is computed after `updates_before(b)` updates.
template <class UpdatesBefore>
double LossOfReplay(const UpdatesBefore& updates_before) {
  double sum = 0;
  for (uint64_t b = 0; b < kBatchesPerEpoch; ++b) {
    const uint64_t examples = b + 1 < kBatchesPerEpoch ? kBatch : kRecords % kBatch;
    sum +=
        (double{kTarget} - static_cast<double>(updates_before(b))) * static_cast<double>(examples);
  }
  return sum / static_cast<double>(kRecords);
}

TEST_CASE("the history of an undisturbed run is what a replay of it gives") {
  constexpr uint64_t kEpochs = 3;
  Cluster cluster(
      {.workers = 1, .job = {{"epochs", kEpochs}, {"evaluate", {{"every_epochs", 1}}}}});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  const json history = cluster.Summary().at("history");
  REQUIRE(history.size() == kEpochs);
  for (uint64_t e = 0; e < kEpochs; ++e) {
    const json& entry = history[e];
    INFO(TextOf(entry));
    CHECK(entry.at("epoch") == e + 1);
    CHECK(entry.at("batches") == kBatchesPerEpoch);
    CHECK(entry.at("examples") == kRecords);
    CHECK(entry.at("rejected") == 0);
    CHECK_FALSE(entry.contains("untold"));
    CHECK(entry.at("seconds") > 0);
    CHECK(entry.at("learning_rate") == kUnits);
    const double loss = LossOfReplay([&](uint64_t b) { return e * kBatchesPerEpoch + b; });
    CHECK(entry.at("train").at("loss").get<double>() == Approx(loss).epsilon(1e-9));
    CHECK(entry.at("train").at("mean_absolute_error").get<double>() == Approx(loss).epsilon(1e-9));
    CHECK(entry.at("test").at("loss") == kTarget - static_cast<float>((e + 1) * kBatchesPerEpoch));
  }
}

TEST_CASE("in a synchronous job whatever is killed each batch counts once in the history") {
  constexpr uint64_t kEpochs = 20;
  const std::string victim = GENERATE("worker:0", "ps:1", "coordinator");
  CAPTURE(victim);
  Cluster cluster({.batch_ms = 5,
                   .job = {{"consistency", "sync"},
                           {"round_batches", kHistoryLanes},
                           {"split_batches", nullptr},
                           {"epochs", kEpochs},
                           {"failures", {{"deaths_per_batch", 50}}}}});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {{victim}, 3, kEpochs * kBatchesPerEpoch, 900});
  CHECK(cluster.Finish(120000) == 0);
  const json history = cluster.Summary().at("history");
  uint64_t before = 0, exact = 0;
  for (const json& entry : history) {
    INFO(TextOf(entry));
    const uint64_t epoch = entry.at("epoch");
    CHECK((victim == "coordinator" ? epoch > before : epoch == before + 1));
    before = epoch;
    CHECK(entry.at("batches") == kBatchesPerEpoch);
    CHECK(entry.at("examples") == kRecords);
    if (entry.contains("untold")) {
      CHECK(victim != "ps:1");  // no worker and no coordinator was killed
      continue;
    }
    ++exact;
    const double loss =
        LossOfReplay([&](uint64_t b) { return (epoch - 1) * kHistoryRounds + b / kHistoryLanes; });
    CHECK(entry.at("train").at("loss").get<double>() == Approx(loss).epsilon(1e-9));
  }
  CHECK(before == kEpochs);
  CHECK(exact >= kEpochs / 2);
}

TEST_CASE("train has a line for every epoch, however short, and none of an earlier run's") {
  Train train;
  for (const uint64_t epochs : {10, 15}) {
    WriteCountingJob(train.root(), {{"epochs", epochs}});
    REQUIRE(train.Start({"--ps", "1", "--workers", "1"}, "")->Wait(60000) == 0);
    INFO(train.log());
    for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      // JSON keys are in alphabetical order.
      const std::string line =
          absl::StrCat("\"epoch\":", epoch, ",\"epochs\":", epochs, ",\"event\":\"epoch\"");
      const size_t first = train.log().find(line);
      CHECK((first != std::string::npos) == (epochs == 10 || epoch > 10));
      CHECK(train.log().find(line, first + 1) == std::string::npos);
    }
  }
}

TEST_CASE("records that cannot be read are counted and named in the summary") {
  constexpr int kRows = 1000, kEpochs = 3;
  Train train;
  std::string lines = "x,y\n";
  for (int i = 0; i < kRows; ++i) lines += i % 400 == 77 ? "oops,0\n" : "1,0\n";
  WriteText(train.root() + "/some.csv", lines);
  const json input = {{"class_name", "InputLayer"},
                      {"config", {{"name", "in"}, {"batch_shape", {nullptr, 1}}}}};
  const json dense = {{"class_name", "Dense"}, {"config", {{"name", "dense"}, {"units", 1}}}};
  const json job = {
      {"name", "bad"},
      {"model", {{"class_name", "Sequential"}, {"config", {{"layers", {input, dense}}}}}},
      {"data",
       {{"train",
         {{"format", "csv"},
          {"files", "*.csv"},
          {"features", {"x"}},
          {"label", "y"},
          {"bad_records", {{"skip", 10}}}}}}},
      {"batch", 100},
      {"epochs", kEpochs},
      {"loss", "mse"},
      {"optimizer", "sgd"}};
  WriteText(train.root() + "/job.json", job.dump());
  REQUIRE(train.Start({"--ps", "1", "--workers", "2"}, "")->Wait(60000) == 0);
  const json summary = JsonOf(ReadText(train.dir() + "/summary.json"));
  INFO(TextOf(summary, 2));
  const json& bad = summary.at("bad_records");
  CHECK(bad.at("records") == 3);
  CHECK(bad.at("left_out") == 3 * kEpochs);
  REQUIRE(bad.at("first").size() == 3);
  for (const json& first : bad.at("first")) {
    CHECK(first.get<std::string>().find("/some.csv row ") != std::string::npos);
  }
  for (const json& entry : summary.at("history")) {
    CHECK(entry.at("bad_records") == 3);
    CHECK(entry.at("examples") == kRows - 3);
  }
}

TEST_CASE("records that cannot be read are left out of an evaluation, with and without a table") {
  const bool table = GENERATE(false, true);
  Train train;
  std::string lines = "x,y\n";
  for (int i = 0; i < 300; ++i) lines += i % 100 == 77 ? "1,oops\n" : "1,0\n";
  WriteText(train.root() + "/some.csv", lines);
  const json source = {{"format", "csv"},
                       {"files", "*.csv"},
                       {"features", {"x"}},
                       {"label", "y"},
                       {"bad_records", {{"skip", 10}}}};
  json layers = json::array();
  layers.push_back(
      {{"class_name", "InputLayer"}, {"config", {{"name", "in"}, {"batch_shape", {nullptr, 1}}}}});
  if (table) {
    layers.push_back({{"class_name", "Embedding"},
                      {"config", {{"name", "ids"}, {"input_dim", 10}, {"output_dim", 2}}}});
    layers.push_back({{"class_name", "Flatten"}, {"config", {{"name", "flat"}}}});
  }
  layers.push_back({{"class_name", "Dense"}, {"config", {{"name", "dense"}, {"units", 1}}}});
  json job = {{"name", "bad"},
              {"model", {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}}},
              {"data", {{"train", source}, {"test", source}}},
              {"batch", 50},
              {"epochs", 2},
              {"loss", "mse"},
              {"optimizer", "sgd"}};
  if (table) job["tables"] = {{"ids", {{"kind", "growing"}, {"shards", 3}}}};
  WriteText(train.root() + "/job.json", job.dump());
  REQUIRE(train.Start({"--ps", "1", "--workers", "2"}, "")->Wait(60000) == 0);
  const json summary = JsonOf(ReadText(train.dir() + "/summary.json"));
  INFO(TextOf(summary, 2));
  CHECK(summary.at("evaluations").size() == 2);
}

}  // namespace
}  // namespace paracord::e2e
