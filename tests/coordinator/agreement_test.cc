#include "coordinator/core/agreement.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

constexpr int64_t kAgreeMs = 1000;

JobFacts Facts(uint64_t records) {
  JobFacts facts;
  facts.set_records(records);
  return facts;
}

TEST_CASE("two workers that find the same are enough") {
  Agreement agreement({"worker:0", "worker:1", "worker:2"}, kAgreeMs);
  const Agreement::Outcome first = agreement.Add("worker:0", Facts(40), 0);
  CHECK_FALSE(first.facts.has_value());
  CHECK(first.waits ==
        "what worker:0 finds in the files waits for another worker that finds the same");
  const Agreement::Outcome second = agreement.Add("worker:1", Facts(40), 1);
  REQUIRE(second.facts.has_value());
  CHECK(second.facts->records() == 40);
  CHECK(second.differs.empty());
}

TEST_CASE("one worker is enough where there is no other, or none that finds the same in time") {
  CHECK(Agreement({"worker:0"}, kAgreeMs).Add("worker:0", Facts(40), 0).facts.has_value());
  Agreement agreement({"worker:0", "worker:1"}, kAgreeMs);
  CHECK_FALSE(agreement.Add("worker:0", Facts(40), 0).facts.has_value());
  CHECK(agreement.Add("worker:0", Facts(40), kAgreeMs).facts.has_value());
}

TEST_CASE("where workers differ a third one decides, or a longer while") {
  Agreement agreement({"worker:0", "worker:1", "worker:2"}, kAgreeMs);
  agreement.Add("worker:0", Facts(40), 0);
  CHECK_FALSE(agreement.Add("worker:1", Facts(41), kAgreeMs).facts.has_value());
  const Agreement::Outcome third = agreement.Add("worker:2", Facts(41), kAgreeMs);
  REQUIRE(third.facts.has_value());
  CHECK(third.facts->records() == 41);
  CHECK(third.differs.find("2 of 3 find") != std::string::npos);
}

TEST_CASE("a worker that has come and opens its files is waited for a while longer") {
  Agreement agreement({"worker:0", "worker:1"}, kAgreeMs);
  agreement.Came("worker:0");
  agreement.Came("worker:1");
  agreement.Add("worker:0", Facts(40), 0);
  CHECK_FALSE(agreement.Add("worker:0", Facts(40), kAgreeMs).facts.has_value());
  CHECK_FALSE(agreement.CannotTakePart("worker:1", 0));
  CHECK(agreement.Add("worker:0", Facts(40), kAgreeMs).facts.has_value());
}

TEST_CASE("the job is wrong if all workers that the cluster names cannot take part") {
  Agreement agreement({"worker:0", "worker:1"}, kAgreeMs);
  CHECK_FALSE(agreement.CannotTakePart("worker:0", 0));
  CHECK_FALSE(agreement.CannotTakePart("worker:7", 0));
  CHECK(agreement.CannotTakePart("worker:1", 0));
}

TEST_CASE("where the cluster names no workers, one that cannot take part ends no job at once") {
  SECTION("another one that has come can") {
    Agreement agreement({}, kAgreeMs);
    agreement.Came("worker:0");
    CHECK_FALSE(agreement.CannotTakePart("worker:1", 0));
    CHECK_FALSE(agreement.CannotTakePart("worker:2", 0));
    CHECK(agreement.CannotTakePart("worker:0", 0));
  }
  SECTION("no other has come yet") {
    Agreement agreement({}, kAgreeMs);
    CHECK_FALSE(agreement.CannotTakePart("worker:0", 7));
    const bool another = GENERATE(false, true);
    CHECK_FALSE(agreement.CannotTakePart("worker:0", 7));
    if (another) CHECK(agreement.CannotTakePart("worker:1", 7));
    CHECK_FALSE(Agreement({}, kAgreeMs).CannotTakePart("worker:0", 6 + kAgreeMs));
    CHECK(agreement.CannotTakePart("worker:0", 7 + kAgreeMs));
  }
}

}  // namespace
}  // namespace paracord
