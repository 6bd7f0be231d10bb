// Joins: the facts that workers bring, and the coordinator's answers.
#include <catch2/catch.hpp>

#include "common/fingerprint64.h"
#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

JoinReply JoinAs(CoreHarness& harness, const std::string& task, const std::string& boot_id = "b") {
  JoinRequest request;
  request.set_task(task);
  request.set_boot_id(boot_id);
  request.set_protocol(kProtocol);
  harness.Feed(JoinEvent{++harness.call, request});
  return harness.joins[harness.call];
}

TEST_CASE("a worker that has the job of an earlier coordinator gets the one of now") {
  CoreHarness first;
  REQUIRE(first.Join("worker:0") != 0);
  CoreHarness later([](Job& job) { job.wire = "bf16"; }, After(first), &first);
  JoinRequest request;
  request.set_task("worker:0");
  request.set_protocol(kProtocol);
  *request.mutable_facts() = first.Facts();
  later.Feed(JoinEvent{++later.call, request});
  const JoinReply anew = later.joins[later.call];
  CHECK(anew.job_json().find("bf16") != std::string::npos);
  CHECK(anew.job() == Fingerprint64(anew.job_json()));
  CHECK(later.Join("worker:0") != 0);
}

TEST_CASE("a worker of another run is no worker of ours, whatever it says and however far we are") {
  const bool ended = GENERATE(false, true);
  const bool cannot = GENERATE(false, true);
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  if (ended) TrainAll(harness, session);
  JoinRequest request;
  request.set_task("worker:0");
  request.set_boot_id("stranger");
  request.set_protocol(kProtocol);
  request.set_run_id("another");
  if (cannot) request.set_error("no such file");
  *request.mutable_facts() = harness.Facts();
  harness.Feed(JoinEvent{++harness.call, request});
  CHECK(harness.joins[harness.call].other_run() == "run");
  CHECK(harness.exit.has_value() == ended);
  if (!ended) CHECK(harness.Work(session).has_lease());
}

TEST_CASE("what one life of a coordinator handed out is nothing to the next") {
  CoreHarness first;
  const uint64_t session = first.Join("worker:0");
  const WorkReply given = first.Work(session);
  REQUIRE(given.has_lease());
  CoreHarness later({}, After(first), &first);
  const uint64_t another = later.Join("worker:1");
  CHECK(later.Work(session).rejoin() == "no such session");
  const WorkReply anew = later.Work(another);
  REQUIRE(anew.has_lease());
  CHECK(anew.lease().id() != given.lease().id());
}

TEST_CASE("who is missing is said with why the last to come was refused") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  CoreHarness later({}, After(harness), &harness);
  CHECK(later.Join("worker:0", 41) == 0);
  const auto waiting = [&] { return later.Told().StatusJson(); };
  CHECK(waiting().find("worker waits to join; the last to come: worker:0 waits: it finds 41 tra") !=
        std::string::npos);
  REQUIRE(later.Join("worker:0", 40, 0, "another life") != 0);
  CHECK(waiting().find("the last to come") == std::string::npos);
}

TEST_CASE("who joins has the name of a worker, and nothing else is kept or logged raw") {
  CoreHarness harness;
  for (const std::string& bad :
       {std::string(), std::string("ps:0"), std::string("chief"), std::string("worker"),
        std::string("worker:007"), std::string("worker:0\n2026-01-01 info coordinator done"),
        "worker:0" + std::string(4100000, 'x')}) {
    CHECK(JoinAs(harness, bad).leave().exit_code() == 2);
  }
  CHECK(JoinAs(harness, "worker:0", std::string(4100000, 'b')).leave().exit_code() == 2);
  CHECK(harness.log.size() < 3000);
  CHECK(harness.log.find("\n2026") == std::string::npos);
  CHECK_FALSE(JoinAs(harness, "worker:0").job_json().empty());
  CHECK_FALSE(JoinAs(harness, "evaluator:0").job_json().empty());
  CHECK_FALSE(harness.exit.has_value());
}

TEST_CASE("what a worker says of itself is shown on one line, and not at any length") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  JoinRequest request;
  request.set_task("worker:1");
  request.set_protocol(kProtocol);
  request.set_device("cpu\n2026 \x1b[2J" + std::string(4100000, 'd'));
  *request.mutable_facts() = harness.Facts();
  harness.Feed(JoinEvent{++harness.call, request});
  const uint64_t session = harness.joins[harness.call].session().id();
  LeaseReport report = CoreHarness::Done(harness.Work(session).lease());
  report.set_next(0);
  report.set_problem(PROBLEM_DATA);
  report.set_message("record 7\n2026 " + std::string(4100000, 'm'));
  harness.Work(session, {report});
  request.set_error("no such file\n2026 " + std::string(4100000, 'e'));
  harness.Feed(JoinEvent{++harness.call, request});
  CHECK(harness.log.size() < 10000);
  CHECK(harness.log.find("record 7; 2026 mmm") != std::string::npos);
  CHECK(harness.log.find("no such file; 2026 eee") != std::string::npos);
  CHECK(harness.log.find("\n2026") == std::string::npos);
  CHECK(harness.Told().StatusJson().size() < 10000);
  CHECK(harness.Told().StatusJson().find("cpu; 2026") != std::string::npos);
}

TEST_CASE("joins that are refused over and over are few lines a second, and counted") {
  CoreHarness harness;
  JoinRequest request;
  request.set_protocol(kProtocol);
  request.set_task("nobody");
  const auto lines = [&](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; (at = harness.log.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (int i = 0; i < 50; ++i) harness.Feed(JoinEvent{++harness.call, request});
  CHECK(lines("a join is refused: task") == 10);
  harness.Run(1000);
  harness.Feed(JoinEvent{++harness.call, request});
  CHECK(lines("a join is refused: task") == 11);
  CHECK(lines("40 more joins were refused\n") == 1);
}

TEST_CASE("a worker that is refused does not say which metrics the job has") {
  const auto job = [](Job& edited) { edited.failures = {true, 1, 1.0}; };
  CoreHarness first(job);
  REQUIRE(first.Join("worker:0") != 0);
  FoundInDir found = After(first);
  found.job_state->metric_names.clear();  // a manifest alone lacks the names
  CoreHarness later(job, std::move(found), &first);
  JoinRequest request;
  request.set_task("worker:7");
  request.set_protocol(kProtocol);
  *request.mutable_facts() = later.Facts(41);
  request.mutable_facts()->add_metric_names("forged");
  later.Feed(JoinEvent{++later.call, request});
  CHECK_FALSE(later.joins[later.call].has_session());
  const uint64_t session = later.Join("worker:0");
  LeaseReport report = CoreHarness::Done(later.Work(session).lease());
  report.set_next(0);
  report.set_problem(PROBLEM_DATA);
  later.Work(session, {report});
  later.Run(200);
  const JobState state = *ParseJobState(later.job_state, "job.state");
  CHECK(state.rejected.size() == 1);
  CHECK(state.metric_names == std::vector<std::string>{"loss"});
}

JoinReply JoinWith(CoreHarness& harness, const std::string& task, uint64_t records,
                   const std::string& error = "") {
  JoinRequest request;
  request.set_task(task);
  request.set_boot_id(task);
  request.set_protocol(kProtocol);
  if (error.empty()) *request.mutable_facts() = harness.Facts(records);
  request.set_error(error);
  harness.Feed(JoinEvent{++harness.call, request});
  return harness.joins[harness.call];
}

TEST_CASE("one worker that cannot take part is refused and named, and the job goes on") {
  CoreHarness harness;
  CHECK(JoinWith(harness, "worker:1", 0, "/x.npy: no such file").leave().exit_code() == 2);
  CHECK_FALSE(harness.exit.has_value());
  CHECK(harness.Join("worker:0") != 0);
  const auto status = JsonOf(harness.Told().StatusJson());
  CHECK(status.at("refused").at("worker:1") == "it cannot take part: /x.npy: no such file");
  CHECK(harness.Join("worker:1") != 0);  // its file exists now
  CHECK_FALSE(JsonOf(harness.Told().StatusJson()).contains("refused"));
}

TEST_CASE("a job that no worker of the cluster can take part in ends") {
  CoreHarness harness;
  JoinWith(harness, "worker:1", 0, "no such layer");
  JoinWith(harness, "worker:0", 0, "no such layer");
  harness.Run(3000);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 2);
}

TEST_CASE("the job goes by what two workers find in the files, whoever comes first") {
  CoreHarness harness({}, {}, nullptr, {}, /*agree_ms=*/2000);
  CHECK(JoinWith(harness, "worker:2", 41).has_wait());
  harness.Run(1000);
  CHECK(JoinWith(harness, "worker:1", 40).has_wait());
  CHECK_FALSE(harness.log.find("the data: 40 records") != std::string::npos);
  JoinWith(harness, "worker:0", 40);
  CHECK(harness.log.find("the data: 40 records") != std::string::npos);
  const JoinReply refused = JoinWith(harness, "worker:2", 41);
  CHECK(refused.leave().exit_code() == 2);
  CHECK(JoinWith(harness, "worker:0", 40).has_session());
  CHECK(JsonOf(harness.Told().StatusJson()).at("refused").contains("worker:2"));
}

TEST_CASE("a worker alone waits for another one that finds the same only for a while") {
  CoreHarness harness({}, {}, nullptr, {}, /*agree_ms=*/2000);
  CHECK(JoinWith(harness, "worker:0", 40).has_wait());
  const bool another = GENERATE(false, true);
  if (another) JoinAs(harness, "worker:1");  // is opening its files
  harness.Run(2000);
  JoinWith(harness, "worker:0", 40);
  CHECK((harness.log.find("the data: 40 records") != std::string::npos) == !another);
  harness.Run(8000);
  JoinWith(harness, "worker:0", 40);
  CHECK(harness.log.find("the data: 40 records") != std::string::npos);
}

}  // namespace
}  // namespace paracord
