#include "worker/work_reports.h"

#include <catch2/catch.hpp>

#include "common/status_text.h"
#include "worker/coordinator_seen.h"

namespace paracord {
namespace {

LeaseReport Report(uint64_t lease, uint32_t next, bool ended) {
  LeaseReport report;
  report.set_lease(lease);
  report.set_next(next);
  report.set_ended(ended);
  return report;
}

TEST_CASE("a lease that has ended is reported at once, and progress now and then") {
  WorkReports reports;
  CHECK_FALSE(reports.Due(1000, false));
  CHECK(reports.Due(1000, true));
  reports.Add(Report(1, 2, false));
  CHECK(reports.Begin(/*ask=*/true, {}, 1000).leases_size() == 1);
  reports.Add(Report(1, 3, false));
  CHECK_FALSE(reports.Due(1049, false));
  CHECK(reports.Due(1050, false));
  reports.Add(Report(1, 4, true));
  CHECK(reports.Due(1001, false));
  CHECK(reports.Begin(false, {}, 1001).leases(0).next() == 4);
  reports.Add(Report(2, 1, true));
  CHECK_FALSE(reports.Due(9000, true));  // a request for a task is in flight
  CHECK_FALSE(reports.BeginBeat());
}

TEST_CASE("a lease that is being reported as ended is held until that is answered") {
  WorkReports reports;
  reports.Add(Report(1, 4, true));
  const WorkRequest told = reports.Begin(/*ask=*/false, {7}, 1000);
  CHECK(told.holds_size() == 0);
  const WorkRequest asked = reports.Begin(true, {7}, 1001);
  REQUIRE(asked.holds_size() == 2);
  CHECK(asked.holds(1) == 1);
  CHECK_FALSE(reports.MayAsk());
  reports.End(asked);
  reports.End(told);
  CHECK(reports.MayAsk());
  CHECK(reports.Begin(true, {7}, 1002).holds_size() == 1);
}

TEST_CASE("what a program wrote last is sent as UTF-8, whatever bytes it wrote") {
  WorkReports reports;
  for (const std::string& last :
       {std::string("Datei gel\xf6scht"), "\u65e5" + std::string("\xe6")}) {
    reports.Add(StepCounters{.program = {.count = 1, .last = last}});
    const WorkRequest sent = reports.Begin(false, {}, 1000);
    WorkRequest read;
    CHECK(read.ParseFromString(sent.SerializeAsString()));
    CHECK(read.program_losses() == 1);
    CHECK(read.program_lost() == Sendable(last));
  }
}

TEST_CASE("counters that were perhaps not heard are said again under their number") {
  WorkReports reports;
  CHECK_FALSE(reports.has_counters());
  reports.Add(StepCounters{.computed = 3, .compute_seconds = 0.25, .waited_seconds = 0.5});
  const WorkRequest sent = reports.Begin(false, {}, 1000);
  CHECK(sent.report() == 1);
  CHECK(sent.computed() == 3);
  CHECK_FALSE(reports.has_counters());
  reports.PutBackCounters(sent);
  reports.Add(StepCounters{.computed = 5});
  reports.BeginSession();
  const WorkRequest again = reports.Begin(false, {}, 1001);
  CHECK(again.computed() == 3);
  CHECK(again.compute_seconds() == 0.25);
  CHECK(again.waited_seconds() == 0.5);
  CHECK(reports.Begin(false, {}, 1002).report() == 2);
  reports.PutBackCounters(WorkRequest());  // a beat has none
  CHECK_FALSE(reports.has_counters());
}

TEST_CASE("a report that was perhaps not heard is said again unless there is a newer one") {
  WorkReports reports;
  reports.Add(Report(1, 2, false));
  reports.Add(Report(2, 2, false));
  EvaluationReport score;
  score.set_lease(5);
  reports.Add(score);
  const WorkRequest sent = reports.Begin(false, {}, 1000);
  reports.End(sent);
  reports.Add(Report(1, 3, false));
  reports.PutBack(sent);
  const WorkRequest again = reports.Begin(false, {}, 2000);
  REQUIRE(again.leases_size() == 2);
  CHECK(again.leases(0).next() == 3);
  CHECK(again.leases(1).next() == 2);
  CHECK(again.evaluation().lease() == 5);
}

TEST_CASE("lanes that are late are said at once, with every call, and until they are others") {
  WorkReports reports;
  reports.SetLate({1, 3});
  CHECK(reports.Due(1000, false));
  const WorkRequest sent = reports.Begin(/*ask=*/false, {}, 1000);
  CHECK(std::vector<uint32_t>(sent.late().begin(), sent.late().end()) ==
        std::vector<uint32_t>{1, 3});
  reports.End(sent);
  reports.SetLate({1, 3});
  CHECK_FALSE(reports.Due(1001, false));
  CHECK(reports.Begin(/*ask=*/true, {}, 1001).late_size() == 2);
  reports.SetLate({3});
  CHECK(reports.Due(1002, false));
  WorkRequest beat;
  reports.SayLate(beat);
  CHECK(beat.late_size() == 1);
  CHECK_FALSE(reports.Due(1003, false));
  reports.PutBack(beat);  // may not have arrived
  CHECK(reports.Due(1004, false));
  reports.SetLate({});
  CHECK_FALSE(reports.Due(1005, false));
  CHECK(reports.Begin(false, {}, 1005).late_size() == 0);
}

TEST_CASE("DIR is looked at once while the coordinator stays away") {
  CoordinatorSeen seen;
  seen.Start(1000);
  CHECK_FALSE(seen.known());
  CHECK_FALSE(seen.LookNow(3000, 3999));
  CHECK(seen.LookNow(3000, 4000));
  CHECK(seen.looked());
  CHECK_FALSE(seen.LookNow(3000, 9000));
  seen.Seen(9000);
  seen.LookAgain();
  CHECK(seen.known());
  CHECK_FALSE(seen.LookNow(3000, 10000));
  CHECK(seen.LookNow(3000, 12000));
}

}  // namespace
}  // namespace paracord
