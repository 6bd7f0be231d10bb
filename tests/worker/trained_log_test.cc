#include "worker/trained_log.h"

#include <catch2/catch.hpp>

#include "worker/work_reports.h"

namespace paracord {
namespace {

// Eight batches of 10 records in splits of 4. The last batch has 5.
DataPlan Plan() {
  DataPlan plan;
  plan.set_records(75);
  plan.set_batch(10);
  plan.set_split_batches(4);
  return plan;
}

BatchId Id(uint64_t split, uint32_t batch) {
  BatchId id;
  id.set_split(split);
  id.set_batch(batch);
  return id;
}

MetricState State(double sum, double count) {
  MetricState state;
  state.add_values(sum);
  state.add_values(count);
  return state;
}

TEST_CASE("batches that follow each other are told together, and others apart") {
  TrainedLog log;
  log.Add(Plan(), Id(0, 1), {10, 1, {MetricState(), State(4, 10)}});
  log.Add(Plan(), Id(1, 0), {10, 2, {MetricState(), State(1, 10)}});
  log.Add(Plan(), Id(0, 2), {10, 3, {MetricState(), State(5, 10)}});
  log.Add(Plan(), Id(0, 1), {10, 4, {}});
  REQUIRE(log.batches.size() == 3);
  CHECK(log.batches[0].first_batch() == 1);
  CHECK(log.batches[0].losses_size() == 2);
  CHECK(log.batches[0].losses(1) == 3);
  CHECK(log.batches[0].examples_size() == 0);
  REQUIRE(log.batches[0].metrics_size() == 2);
  CHECK(log.batches[0].metrics(0).values_size() == 0);
  CHECK(log.batches[0].metrics(1).values(0) == 9);
  CHECK(log.batches[0].metrics(1).values(1) == 20);
  CHECK(log.batches[1].split() == 1);
  CHECK(log.batches[2].losses(0) == 4);
  CHECK(log.batches[2].metrics_size() == 0);
}

TEST_CASE("examples are told where one batch has fewer than the plan says") {
  TrainedLog log;
  log.Add(Plan(), Id(1, 1), {10, 1, {}});
  log.Add(Plan(), Id(1, 2), {7, 1, {}});
  log.Add(Plan(), Id(1, 3), {5, 1, {}});  // the plan's number
  REQUIRE(log.batches.size() == 1);
  CHECK(std::vector<uint32_t>(log.batches[0].examples().begin(), log.batches[0].examples().end()) ==
        std::vector<uint32_t>{10, 7, 5});
}

TEST_CASE("a metric whose state is large is not told") {
  TrainedLog log;
  MetricState large;
  for (int i = 0; i <= TrainedLog::kMetricValuesMax; ++i) large.add_values(1);
  log.Add(Plan(), Id(0, 0), {10, 1, {State(1, 2), large}});
  CHECK(log.batches[0].metrics(0).values_size() == 2);
  CHECK(log.batches[0].metrics(1).values_size() == 0);
}

TEST_CASE("a bad record is named once, and only the first few are") {
  BadRecordNames names;
  TrainedLog log;
  names.Name({"a.csv row 2: bad", "a.csv row 3: bad"}, log);
  names.Name({"a.csv row 2: bad"}, log);
  CHECK(log.bad_records.size() == 2);
  for (int i = 0; i < 100; ++i) names.Name({"row " + std::to_string(i)}, log);
  CHECK(log.bad_records.size() == BadRecordNames::kNamesMax);
}

TEST_CASE("what was trained is told again if nobody answered") {
  WorkReports reports;
  TrainedLog log;
  log.Add(Plan(), Id(0, 0), {10, 1.5, {State(1, 10)}});
  log.bad_records = {"a.csv row 2: bad"};
  reports.Add(StepCounters{.trained = log});
  const WorkRequest sent = reports.Begin(false, {}, 1000);
  CHECK(sent.trained_size() == 1);
  reports.PutBackCounters(sent);
  reports.End(sent);
  const WorkRequest again = reports.Begin(false, {}, 2000);
  CHECK(again.report() == sent.report());
  REQUIRE(again.trained_size() == 1);
  CHECK(again.trained(0).SerializeAsString() == sent.trained(0).SerializeAsString());
  REQUIRE(again.bad_records_size() == 1);
}

}  // namespace
}  // namespace paracord
