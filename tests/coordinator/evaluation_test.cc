#include "coordinator/core/evaluation.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

EvaluationReport ReportOf(const EvaluationLease& lease, double loss, double right) {
  EvaluationReport report;
  report.set_lease(lease.id());
  const double examples = static_cast<double>(lease.end_record() - lease.first_record());
  report.set_examples(lease.end_record() - lease.first_record());
  for (const double sum : {loss * examples, right}) {
    MetricState& state = *report.add_metrics();
    state.add_values(sum);
    state.add_values(examples);
  }
  return report;
}

TEST_CASE("each record is leased once and counts once, whoever scores it") {
  Evaluation evaluation(7, 0, /*records=*/25, /*range_records=*/10, {"loss", "accuracy"});
  const auto a = evaluation.Grant(1, 100);
  const auto b = evaluation.Grant(2, 101);
  const auto c = evaluation.Grant(3, 100);
  REQUIRE((a && b && c));
  CHECK(c->first_record() == 20);
  CHECK(c->end_record() == 25);
  CHECK_FALSE(evaluation.Grant(4, 101).has_value());
  REQUIRE(evaluation.Report(ReportOf(*c, 1.0, 5)).ok());
  REQUIRE(evaluation.Report(ReportOf(*a, 2.0, 4)).ok());
  REQUIRE(evaluation.Report(ReportOf(*a, 9.0, 9)).ok());  // a repeated report is dropped
  CHECK_FALSE(evaluation.Done());
  REQUIRE(evaluation.Report(ReportOf(*b, 3.0, 6)).ok());
  REQUIRE(evaluation.Done());
  CHECK(evaluation.Metrics().at("accuracy") == Approx(15.0 / 25));
  CHECK(evaluation.Metrics().at("loss") == Approx(55.0 / 25));
}

TEST_CASE("a range is eight batches, and more where there would be too many ranges") {
  CHECK(RangeRecords(10000, 64) == 512);
  CHECK(RangeRecords(7, 64) == 512);
  CHECK(RangeRecords(1'000'000'000, 32) == 32 * 1908);
  const uint64_t many = uint64_t{1} << 56;
  CHECK(many / RangeRecords(many, 1) < 1 << 14);
}

TEST_CASE("a dead worker's ranges are scored by another, and its late report is dropped") {
  Evaluation evaluation(7, 0, 10, 10, {"loss", "accuracy"});
  const auto lost = evaluation.Grant(1, 100);
  evaluation.EndSession(100);
  const auto again = evaluation.Grant(2, 101);
  REQUIRE((lost && again));
  REQUIRE(evaluation.Report(ReportOf(*lost, 5.0, 1)).ok());
  CHECK_FALSE(evaluation.Done());
  REQUIRE(evaluation.Report(ReportOf(*again, 1.0, 9)).ok());
  CHECK(evaluation.Metrics().at("accuracy") == Approx(0.9));
}

TEST_CASE("a report that does not fit frees the range and says why") {
  Evaluation evaluation(7, 0, 10, 10, {"loss", "accuracy"});
  auto lease = evaluation.Grant(1, 100);
  EvaluationReport report = ReportOf(*lease, 1.0, 5);
  report.set_examples(9);
  CHECK(absl::IsInvalidArgument(evaluation.Report(report)));
  lease = evaluation.Grant(2, 100);
  REQUIRE(lease.has_value());
  report = ReportOf(*lease, 1.0, 5);
  report.set_problem(PROBLEM_DATA);
  report.set_message("/data/t10k: row 3");
  CHECK(std::string(evaluation.Report(report).message()).find("row 3") != std::string::npos);
  lease = evaluation.Grant(3, 100);
  REQUIRE(lease.has_value());
  report = ReportOf(*lease, 1.0, 5);
  for (int i = 0; i < 3 << 20; ++i) report.mutable_metrics(0)->add_values(1.0);
  CHECK(evaluation.Report(report).message() ==
        "an evaluation report has 24.0 MiB, and at most 16.0 MiB are taken");
  CHECK_FALSE(evaluation.Done());
  CHECK(evaluation.Grant(4, 100).has_value());
}

}  // namespace
}  // namespace paracord
