#include "coordinator/core/epoch_history.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "common/json_text.h"

namespace paracord {
namespace {

using nlohmann::json;

const std::vector<std::string> kNames = {"loss", "accuracy"};

// Returns a plan of four batches an epoch, of 10, 10, 10 and 5 records, in two splits.
DataPlan FourBatches() {
  DataPlan plan;
  plan.set_records(35);
  plan.set_batch(10);
  plan.set_split_batches(2);
  return plan;
}

TrainedBatches TellOf(uint64_t epoch, uint64_t split, uint32_t first, std::vector<double> losses) {
  TrainedBatches told;
  told.set_epoch(epoch);
  told.set_split(split);
  told.set_first_batch(first);
  for (const double loss : losses) told.add_losses(loss);
  return told;
}

TrainedBatches WithAccuracy(TrainedBatches told, double right, double examples) {
  told.add_metrics();
  MetricState& state = *told.add_metrics();
  state.add_values(right);
  state.add_values(examples);
  return told;
}

absl::Status TakeIn(EpochHistory& history, const TrainedBatches& told) {
  return history.Add(told, FourBatches(), told.epoch() < 3 ? 4 : 0, kNames.size(), "worker:0");
}

EpochClosing Closing(uint64_t rejected = 0, uint64_t examples = 35) {
  return {.batches = 4, .rejected = rejected, .examples = examples, .learning_rate = 0.5};
}

TEST_CASE("an epoch has the mean loss of its examples, its metrics, its time and its rate") {
  EpochHistory history;
  history.Run(0, 1000);
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 0, {4, 2}), 12, 20)).ok());
  history.Stop(2000);  // a ps was lost
  history.Run(0, 3500);
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 1, 0, {1}), 9, 10)).ok());
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 1, 1, {3}), 5, 5)).ok());
  CHECK(history.Epochs(0, kNames).empty());  // the ledgers do not show the epoch's end yet
  const std::map<std::string, double> so_far = history.TrainSoFar(kNames);
  CHECK(so_far.at("loss") == (40 + 20 + 10 + 15) / 35.0);
  CHECK(so_far.at("accuracy") == 26 / 35.0);
  history.Close(0, Closing(), kNames, 4500);
  const json entry = history.Epochs(0, kNames).at(0);
  CHECK(entry.at("epoch") == 1);
  CHECK(entry.at("batches") == 4);
  CHECK(entry.at("examples") == 35);
  CHECK(entry.at("rejected") == 0);
  CHECK(entry.at("seconds") == 2.0);
  CHECK(entry.at("samples_per_second") == 17.5);
  CHECK(entry.at("learning_rate") == 0.5);
  CHECK(entry.at("train").at("loss") == (40 + 20 + 10 + 15) / 35.0);
  CHECK(entry.at("train").at("accuracy") == 26 / 35.0);
  CHECK_FALSE(entry.contains("untold"));
  CHECK_FALSE(entry.contains("bad_records"));
}

TEST_CASE("the figures so far are those of the epoch in training") {
  EpochHistory history;
  CHECK(history.TrainSoFar(kNames).empty());
  history.Run(0, 0);
  CHECK(history.TrainSoFar(kNames).empty());  // no batch was reported
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 0, {2}), 6, 10)).ok());
  CHECK(history.TrainSoFar(kNames).at("loss") == 2);
  history.Run(1, 1000);
  REQUIRE(TakeIn(history, TellOf(1, 0, 0, {5})).ok());
  CHECK(history.TrainSoFar(kNames) == std::map<std::string, double>{{"loss", 5}});
  history.Stop(2000);
  CHECK(history.TrainSoFar(kNames).empty());
}

TEST_CASE("a batch counts once, when somebody first tells of it") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 0, {1, 1}), 10, 20)).ok());
  // A repeated computation.
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 0, {9, 9}), 20, 20)).ok());
  // Of a partly new report, the new losses count, and no metrics.
  REQUIRE(TakeIn(history, TellOf(0, 1, 1, {1})).ok());
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 1, 0, {1, 9}), 15, 15)).ok());
  history.Close(0, Closing(), kNames, 1000);
  const json entry = history.Epochs(0, kNames).at(0);
  CHECK(entry.at("train").at("loss") == 1);
  CHECK(entry.at("train").at("accuracy") == 0.5);
  CHECK(entry.at("examples") == 35);
}

TEST_CASE("an epoch that a restore takes back is not closed twice") {
  EpochHistory history;
  for (const uint64_t epoch : {0, 1, 0, 1, 2}) {  // restored to the first epoch after the second
    history.Run(epoch, 0);
    REQUIRE(TakeIn(history, TellOf(epoch, 0, 0, {1, 1})).ok());
    REQUIRE(TakeIn(history, TellOf(epoch, 1, 0, {1, 1})).ok());
    history.Close(epoch, Closing(), kNames, 500);
  }
  const json epochs = history.Epochs(0, kNames);
  REQUIRE(epochs.size() == 3);
  for (size_t e = 0; e < 3; ++e) {
    CHECK(epochs[e].at("epoch") == e + 1);
    CHECK(epochs[e].at("seconds") == 0.5);
    CHECK(epochs[e].at("train").at("loss") == 1);
  }
  CHECK(history.Epochs(2, kNames).size() == 1);
  CHECK(history.Epochs(3, kNames).empty());
}

TEST_CASE("batches that a restore takes back count once, though their epoch is not closed") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {1, 1})).ok());
  CHECK(history.open_batches() == 2);
  history.Stop(100);
  history.Run(0, 200);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {8, 8})).ok());
  CHECK(history.open_batches() == 2);
}

TEST_CASE("batches that a worker could not tell of before it died are known to be missing") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {2, 2})).ok());
  REQUIRE(TakeIn(history, TellOf(0, 1, 1, {4})).ok());
  history.Close(0, Closing(/*rejected=*/0), kNames, 1000);
  json entry = history.Epochs(0, kNames).at(0);
  CHECK(entry.at("untold") == 1);
  CHECK(entry.at("batches") == 4);
  CHECK(entry.at("examples") == 35);
  CHECK(entry.at("train").at("loss") == (40 + 20) / 25.0);
  // A late report counts until the next epoch is closed.
  history.Run(1, 1000);
  REQUIRE(TakeIn(history, TellOf(0, 1, 0, {6})).ok());
  entry = history.Epochs(0, kNames).at(0);
  CHECK_FALSE(entry.contains("untold"));
  CHECK(entry.at("train").at("loss") == (40 + 60 + 20) / 35.0);
  history.Close(1, Closing(), kNames, 2000);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {6})).ok());
  CHECK(history.Epochs(0, kNames).at(0) == entry);
}

TEST_CASE("a batch that is rejected after its report counted is named, and hides no untold one") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {1, 1})).ok());
  EpochClosing closing = Closing(/*rejected=*/1, /*examples=*/25);
  closing.rejected_batches.Add(1);
  closing.cut_short = true;
  history.Close(0, closing, kNames, 1000);
  const auto check = [](const EpochHistory& any) {
    const json entry = any.Epochs(0, kNames).at(0);
    CHECK(entry.at("batches") == 3);
    CHECK(entry.at("rejected") == 1);
    CHECK(entry.at("rejected_told") == 1);
    CHECK(entry.at("untold") == 2);
  };
  check(history);
  EpochHistory next;
  REQUIRE(next.Restore(history.Epochs(0, kNames), history.SaveOpen(1000)).ok());
  check(next);
  REQUIRE(TakeIn(next, TellOf(0, 1, 0, {1})).ok());
  CHECK(next.Epochs(0, kNames).at(0).at("untold") == 1);
}

TEST_CASE("rejected batches have no examples, and an epoch of them alone has no loss") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, TellOf(0, 0, 0, {1, 1})).ok());
  history.Close(0, Closing(/*rejected=*/2, /*examples=*/20), kNames, 1000);
  CHECK(history.Epochs(0, kNames).at(0).at("batches") == 2);
  CHECK(history.Epochs(0, kNames).at(0).at("examples") == 20);
  CHECK_FALSE(history.Epochs(0, kNames).at(0).contains("untold"));
  history.Run(1, 1000);
  history.Close(1, Closing(4, 0), kNames, 1000);
  CHECK(history.Epochs(1, kNames).at(0).at("train").empty());
  CHECK_FALSE(history.Epochs(1, kNames).at(0).contains("samples_per_second"));
}

TEST_CASE("records that are left out are counted by epoch, and the first are named") {
  EpochHistory history;
  for (const uint64_t epoch : {0, 1}) {
    history.Run(epoch, 0);
    TrainedBatches told = TellOf(epoch, 0, 0, {3, 1});
    told.add_examples(epoch == 0 ? 8 : 7);
    told.add_examples(10);
    for (int i = 0; i < 2; ++i) REQUIRE(TakeIn(history, told).ok());  // the second one is old news
    history.Close(epoch, Closing(), kNames, 1000);
  }
  for (int i = 0; i < 9; ++i) history.NameBadRecord("a.csv row " + std::to_string(i % 7) + "\nx");
  CHECK(history.bad_records() == 5);
  CHECK(history.bad_records_most() == 3);
  REQUIRE(history.bad_records_named().size() == EpochHistory::kBadRecordsNamed);
  CHECK(history.bad_records_named()[1] == "a.csv row 1; x");
  const json entry = history.Epochs(0, kNames).at(0);
  CHECK(entry.at("bad_records") == 2);
  CHECK(entry.at("examples") == 33);
  CHECK(entry.at("train").at("loss") == (24 + 10) / 18.0);
}

TEST_CASE("what cannot be is refused, and nothing of it counts") {
  EpochHistory history;
  history.Run(0, 0);
  TrainedBatches told = TellOf(0, 0, 0, {1, 1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SECTION("a split beyond the epoch") { told.set_split(2); }
  SECTION("a batch beyond its split") { told.set_first_batch(1); }
  SECTION("a first batch that overflows") { told.set_first_batch(~uint32_t{0}); }
  SECTION("an epoch beyond the job") { told.set_epoch(3); }
  SECTION("an epoch that overflows") { told.set_epoch(~uint64_t{0}); }
  SECTION("a loss that is no number") { told.set_losses(1, nan); }
  SECTION("an infinite loss") { told.set_losses(0, -std::numeric_limits<double>::infinity()); }
  SECTION("a loss that no float32 has") { told.set_losses(0, 1e300); }
  SECTION("examples of one batch alone") { told.add_examples(10); }
  SECTION("more examples than a batch has") {
    told.add_examples(11);
    told.add_examples(10);
  }
  SECTION("no examples") {
    told.add_examples(0);
    told.add_examples(10);
  }
  SECTION("fewer metrics than the job has") { told.add_metrics(); }
  SECTION("a metric that is no number") { told = WithAccuracy(std::move(told), nan, 20); }
  SECTION("a metric of no kind") {
    told = WithAccuracy(std::move(told), 1, 20);
    told.mutable_metrics(1)->set_kind(static_cast<MetricKind>(99));
  }
  SECTION("a metric with an endless state") {
    told = WithAccuracy(std::move(told), 1, 20);
    for (int i = 0; i < EpochHistory::kMetricValuesMax; ++i) told.mutable_metrics(1)->add_values(1);
  }
  CHECK(absl::IsInvalidArgument(TakeIn(history, told)));
  CHECK(history.open_batches() == 0);
}

TEST_CASE("a metric has the kind that most batches are told with, whoever is the first to tell") {
  EpochHistory history;
  history.Run(0, 0);
  TrainedBatches other = WithAccuracy(TellOf(0, 0, 0, {1}), 5, 10);
  SECTION("another kind") { other.mutable_metrics(1)->set_kind(METRIC_ROOT); }
  SECTION("another size") { other.mutable_metrics(1)->add_values(1); }
  SECTION("several labels") { other.mutable_metrics(1)->add_label_weights(1); }
  REQUIRE(history.Add(other, FourBatches(), 4, kNames.size(), "worker:9").ok());
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 1, {1}), 4, 10)).ok());
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 1, 0, {1, 1}), 12, 15)).ok());
  const json open = history.SaveOpen(500);
  CHECK(history.Close(0, Closing(), kNames, 1000) == std::vector<std::string>{"worker:9"});
  CHECK(history.Epochs(0, kNames).at(0).at("train").at("accuracy") == 16 / 25.0);
  // The next coordinator continues with the kind of counting that this one used.
  EpochHistory next;
  REQUIRE(next.Restore(json::array(), open).ok());
  next.Run(0, 0);
  CHECK(next.Close(0, Closing(), kNames, 1000).empty());
  CHECK(next.Epochs(0, kNames).at(0).at("train").at("accuracy") == 16 / 25.0);
}

TEST_CASE("kinds of a metric are few, however many a worker invents") {
  ToldMetric metric;
  MetricState state;
  for (int values = 1; values < 100; ++values) {
    state.add_values(1);
    metric.Add(state, 1, "worker:9");
  }
  CHECK(metric.TasksOfOthers().size() == ToldMetric::kKindsMax - 1);
  CHECK(metric.sum().values_size() == 1);
}

TEST_CASE("an epoch that is not trained yet takes nothing") {
  EpochHistory history;
  history.Run(0, 0);
  CHECK(TakeIn(history, TellOf(1, 0, 0, {1})).ok());
  CHECK(history.open_batches() == 0);
}

TEST_CASE("the next coordinator goes on with the same history") {
  EpochHistory history;
  for (const uint64_t epoch : {0, 1}) {
    history.Run(epoch, 0);
    REQUIRE(TakeIn(history, WithAccuracy(TellOf(epoch, 0, 0, {1, 2}), 10, 20)).ok());
    if (epoch == 0) history.Close(0, Closing(), kNames, 1000);
  }
  history.NameBadRecord("a.csv row 3");
  const json epochs = JsonOf(TextOf(history.Epochs(0, kNames)));
  const json open = JsonOf(TextOf(history.SaveOpen(1500)));
  EpochHistory next;
  REQUIRE(next.Restore(epochs, open).ok());
  CHECK(next.found() == 1);
  CHECK(next.Epochs(0, kNames) == epochs);
  CHECK(next.bad_records_named() == std::vector<std::string>{"a.csv row 3"});
  next.Run(1, 9000);
  REQUIRE(TakeIn(next, WithAccuracy(TellOf(1, 0, 0, {9, 9}), 20, 20)).ok());  // reported before
  REQUIRE(TakeIn(next, WithAccuracy(TellOf(1, 1, 0, {3, 4}), 15, 15)).ok());
  next.Close(1, Closing(), kNames, 9500);
  const json entry = next.Epochs(1, kNames).at(0);
  CHECK(entry.at("train").at("loss") == (10 + 20 + 30 + 20) / 35.0);
  CHECK(entry.at("train").at("accuracy") == 25 / 35.0);
  CHECK(entry.at("seconds") == 2.0);  // 1.5 s of it in the earlier life
}

// Trains two of an epoch's four batches, after which `steps` ends the job.
EpochHistory CutShort() {
  EpochHistory history;
  for (const uint64_t epoch : {0, 1}) {
    history.Run(epoch, 0);
    REQUIRE(TakeIn(history, WithAccuracy(TellOf(epoch, 0, 0, {1, 2}), 10, 20)).ok());
    if (epoch == 0) history.Close(0, Closing(), kNames, 1000);
  }
  history.Close(1, {.batches = 2, .examples = 20, .learning_rate = 0.5, .cut_short = true}, kNames,
                1500);
  return history;
}

TEST_CASE("an epoch that was cut short opens again, with its sums, when it has more batches") {
  const EpochHistory history = CutShort();
  const json epochs = history.Epochs(0, kNames), open = history.SaveOpen(1500);
  EpochHistory next;
  REQUIRE(next.Restore(JsonOf(TextOf(epochs)), JsonOf(TextOf(open))).ok());
  CHECK(next.Epochs(0, kNames) == epochs);
  next.Extend(2);  // no longer than before
  CHECK(next.closed() == 2);
  CHECK(next.Epochs(0, kNames) == epochs);
  CHECK(next.SaveOpen(9000) == open);
  next.Extend(4);
  CHECK(next.closed() == 1);
  CHECK(next.found() == 1);
  CHECK(next.open_batches() == 2);
  CHECK(next.Epochs(0, kNames).size() == 1);
  next.Run(1, 9000);
  REQUIRE(TakeIn(next, WithAccuracy(TellOf(1, 1, 0, {3, 4}), 15, 15)).ok());
  next.Close(1, Closing(), kNames, 9500);
  const json entry = next.Epochs(1, kNames).at(0);
  CHECK(entry.at("batches") == 4);
  CHECK(entry.at("train").at("loss") == (10 + 20 + 30 + 20) / 35.0);
  CHECK(entry.at("train").at("accuracy") == 25 / 35.0);
  CHECK(entry.at("seconds") == 2.0);
  CHECK_FALSE(entry.contains("untold"));
}

TEST_CASE("an epoch of which an earlier version saved no sums opens again without them") {
  const EpochHistory history = CutShort();
  json open = history.SaveOpen(1500);
  open.erase("cut_short");
  EpochHistory next;
  REQUIRE(next.Restore(history.Epochs(0, kNames), open).ok());
  next.Extend(4);
  CHECK(next.closed() == 1);
  next.Run(1, 9000);
  REQUIRE(TakeIn(next, TellOf(1, 1, 0, {3, 4})).ok());
  next.Close(1, Closing(), kNames, 9500);
  const json entry = next.Epochs(1, kNames).at(0);
  CHECK(entry.at("untold") == 2);
  CHECK(entry.at("seconds") == 2.0);
}

TEST_CASE("a history whose epoch was cut short is none if that is damaged") {
  const EpochHistory history = CutShort();
  const json epochs = history.Epochs(0, kNames), open = history.SaveOpen(0);
  const std::vector<std::function<void(json&, json&)>> damages = {
      [](json& e, json&) { e.erase(1); },
      [](json& e, json&) { e[1]["examples"] = 3; },
      [](json&, json& o) { o["cut_short"]["epoch"] = 1; },
      [](json&, json& o) { o["cut_short"]["epoch"] = 3; },
      [](json&, json& o) { o["cut_short"].erase("told"); },
      [](json&, json& o) { o["cut_short"] = 5; }};
  for (size_t i = 0; i < damages.size(); ++i) {
    CAPTURE(i);
    json some_epochs = epochs, some_open = open;
    damages[i](some_epochs, some_open);
    EpochHistory next;
    CHECK(absl::IsDataLoss(next.Restore(some_epochs, some_open)));
    CHECK(next.closed() == 0);
  }
}

TEST_CASE("a history that is damaged is none") {
  EpochHistory history;
  history.Run(0, 0);
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(0, 0, 0, {1, 2}), 10, 20)).ok());
  history.Close(0, Closing(), kNames, 0);
  history.Run(1, 0);
  REQUIRE(TakeIn(history, WithAccuracy(TellOf(1, 0, 0, {1, 2}), 10, 20)).ok());
  const json epochs = history.Epochs(0, kNames), open = history.SaveOpen(0);
  const std::vector<std::function<void(json&, json&)>> damages = {
      [](json& e, json&) { e = 5; },
      [](json& e, json&) { e[0].erase("batches"); },
      [](json& e, json&) { e.push_back(e[0]); },
      [](json& e, json&) { e[0]["epoch"] = 7; },
      [](json& e, json&) { e[0]["train"] = "x"; },
      [](json&, json& o) { o = json::array(); },
      [](json&, json& o) {
        o["open"][0]["told"] = {{3, 1}};
      },
      [](json&, json& o) { o["open"][0]["epoch"] = 1; },
      [](json&, json& o) { o["open"][0]["examples"] = 99; },
      [](json&, json& o) { o["open"][0]["metrics"][1]["kind"] = 99; },
      [](json&, json& o) { o["open"][0].erase("loss"); },
      [](json&, json& o) { o["bad_records"]["named"] = 3; }};
  for (size_t i = 0; i < damages.size(); ++i) {
    CAPTURE(i);
    json some_epochs = epochs, some_open = open;
    damages[i](some_epochs, some_open);
    EpochHistory next;
    CHECK(absl::IsDataLoss(next.Restore(some_epochs, some_open)));
    CHECK(next.closed() == 0);
    CHECK(next.Epochs(0, kNames).empty());
  }
}

TEST_CASE("the newest epochs are kept, and no more") {
  EpochHistory history;
  const uint64_t all = EpochHistory::kEpochsMax + 50;
  for (uint64_t epoch = 0; epoch < all; ++epoch) {
    history.Run(epoch, 0);
    history.Close(epoch, Closing(), kNames, 0);
  }
  const json epochs = history.Epochs(0, kNames);
  CHECK(epochs.size() == EpochHistory::kEpochsMax);
  CHECK(epochs.back().at("epoch") == all);
}

}  // namespace
}  // namespace paracord
