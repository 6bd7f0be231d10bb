// The status page loads only itself and /status.json, never treats text as HTML, and shows what the
// core says of a job.
#include "coordinator/status_page.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "coordinator/core_harness.h"
#include "coordinator/history.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("the page is whole, and asks nobody else for anything") {
  const std::string page = kStatusPage;
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("</html>") != std::string::npos);
  for (const std::string part : {"@page.css@", "@charts.js@", "@page.js@"}) {
    CHECK(page.find(part) == std::string::npos);
  }
  CHECK(page.find("function curve(") != std::string::npos);
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(page.find("name=\"viewport\"") != std::string::npos);
  const std::regex address("https?://[^\"]*");
  for (std::sregex_iterator it(page.begin(), page.end(), address), end; it != end; ++it) {
    CHECK(it->str() == "http://www.w3.org/2000/svg");  // a namespace, which no browser loads
  }
  for (const std::string loads :
       {"src=", "@import", "url(", "<link", "<form", "innerHTML", "eval(", "document.write"}) {
    INFO(loads);
    CHECK(page.find(loads) == std::string::npos);
  }
}

using nlohmann::json;

json StatusOf(const CoreHarness& harness) { return JsonOf(harness.Told().StatusJson()); }

constexpr uint64_t kSplitBatches = 20, kRecords = 4000;

void InLargeSplits(Job& job) { job.split_batches = kSplitBatches; }

// Reports the batches of the first lease as trained, and returns the lease that follows.
Lease TrainOne(CoreHarness& harness, uint64_t session) {
  const WorkReply first = harness.Work(session);
  REQUIRE(first.has_lease());
  harness.Enter(first.lease());
  harness.Run(1000);
  WorkRequest request;
  request.set_session(session);
  request.set_want_task(true);
  request.set_report(1);
  request.set_computed(kSplitBatches);
  request.set_samples(10 * kSplitBatches);
  *request.add_leases() = CoreHarness::Done(first.lease());
  harness.Feed(WorkEvent{++harness.call, request});
  REQUIRE(harness.works[harness.call].has_lease());
  harness.Run(1200);  // the ps are asked for their ledgers
  return harness.works[harness.call].lease();
}

// What the core says of jobs that train, wait for a ps or a silent worker, have failed, are done.
json StatusesOfJobs() {
  json statuses;
  {
    CoreHarness harness(InLargeSplits);
    for (PsDescription& ps : harness.ps) ps.set_bytes(1234567);
    const uint64_t session = harness.Join("worker:0", kRecords);
    TrainOne(harness, session);
    statuses["training"] = StatusOf(harness);
    harness.Run(5000);
    statuses["silent"] = StatusOf(harness);
    harness.dead = {1};
    harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("killed")});
    for (int i = 0; i < 10; ++i) {
      harness.Work(session);
      harness.Run(1500);
    }
    statuses["away"] = StatusOf(harness);
  }
  {
    CoreHarness harness([](Job& job) {
      InLargeSplits(job);
      job.failures = {true, 1, 0.0, 1};
    });
    const uint64_t session = harness.Join("worker:0", kRecords);
    LeaseReport report;
    report.set_lease(TrainOne(harness, session).id());
    report.set_ended(true);
    report.set_problem(PROBLEM_DATA);
    report.set_message("a bad record");
    harness.Work(session, {report});
    harness.Run(5000);
    REQUIRE(harness.exit.has_value());
    statuses["failed"] = StatusOf(harness);
  }
  CoreHarness harness;
  TrainAll(harness, harness.Join("worker:0"));
  harness.Run(1000);
  REQUIRE(harness.exit.has_value());
  statuses["done"] = StatusOf(harness);
  History history;
  history.Add(1700000000000, {10, {{"train/loss", 4}, {"cluster/staleness", 0}}});
  history.Add(1700000005000, {20, {{"train/loss", 2}, {"cluster/staleness", 1}}});
  json curves = statuses["training"];
  history.AddTo(curves);
  curves["evaluations"] = {{{"epoch", 1}, {"metrics", {{"loss", 3}}}}};
  statuses["curves"] = std::move(curves);
  return statuses;
}

TEST_CASE(
    "the page shows of a job what the core says: who is awaited, the rate's age, the reason") {
  if (std::system("command -v node >/dev/null") != 0) {
    WARN("skipped: 1 (there is no node: package nodejs)");
    return;
  }
  const TestDirectory directory;
  const std::string statuses = directory.Write("statuses.json", TextOf(StatusesOfJobs()));
  const std::string page = PARACORD_SOURCE_DIR "/coordinator/page/";
  const std::string said = directory / "said";
  const int code = std::system(
      absl::StrCat("TZ=UTC node " PARACORD_SOURCE_DIR "/tests/coordinator/page_test.js ", page,
                   "charts.js ", page, "page.js ", statuses, " >", said, " 2>&1")
          .c_str());
  const std::string text = PosixFiles().ReadWhole(said).value_or("");
  INFO(text);
  CHECK(code == 0);
  CHECK(text.find(" tests of the page") != std::string::npos);
}

}  // namespace
}  // namespace paracord
