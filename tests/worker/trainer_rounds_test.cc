// A trainer with lanes, whose pulls wait for other workers' lanes.
#include <catch2/catch.hpp>

#include "tests/worker/rounds_fixture.h"

namespace paracord {
namespace {

TEST_CASE("each batch asks for the values of the round before it, with the push before") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 1, 0, 3));
  CHECK(test.ps->UnderWay() == "pull");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.0 for 1");
  CHECK(test.ps->order().proof == "proof of lane 1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.1 for 2");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.2");  // the next batch is unknown
  test.Values();
  CHECK(test.reports == Said{"1 at 1", "1 at 2", "1 ended at 3"});
  test.trainer->Take(test.Lane(2, 1, 3, 4));
  CHECK(test.ps->UnderWay() == "pull for 3");
}

TEST_CASE("values may be as many rounds behind as the job says") {
  RoundsFixture test(/*staleness=*/2);
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  CHECK(test.ps->UnderWay() == "pull");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.3");
}

TEST_CASE("several lanes are pushed round by round") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 2, 0, 2));
  test.trainer->Take(test.Lane(2, 0, 0, 2));
  test.Values();
  Said pushes;
  while (!test.ps->UnderWay().empty()) {
    pushes.push_back(test.ps->UnderWay());
    test.Values();
  }
  CHECK(pushes == Said{"push 2.0", "push 0.0 for 1", "push 0.1 for 1", "push 2.1"});
  CHECK(test.ps->order().proof == "proof of lane 2");
}

TEST_CASE("a pull that waits is asked again alone, and its worker wants a lane meanwhile") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 0, 0, 4));
  test.Values();
  const int wanted = test.wanted;
  CHECK_FALSE(test.trainer->WantsTask());
  test.Waits({1, 2});
  CHECK(test.reports == Said{"1 at 1"});  // the push was entered
  for (int i = 0; i < 3; ++i) {
    CHECK(test.ps->UnderWay() == "pull for 1");
    CHECK(test.trainer->WantsTask());
    test.Waits({2});
  }
  CHECK(test.wanted > wanted);
  CHECK(test.trainer->WaitsFor() == "round 1 of epoch 1 for 2 s (behind: lanes 2)");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.1 for 2");
  CHECK_FALSE(test.trainer->WantsTask());
  CHECK(test.trainer->WaitsFor().empty());
  CHECK(test.figures->waited_ms == 2001);
}

TEST_CASE("a lane that is granted while a pull waits, and is further behind, is computed first") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 0, 2, 4));
  CHECK(test.ps->UnderWay() == "pull for 2");
  test.trainer->Take(test.Lane(2, 1, 1, 2));
  test.Waits({1});
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.1 for 2");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 3");
}

TEST_CASE("a worker that waits goes on with a lane of which any values do") {
  RoundsFixture test(/*staleness=*/1);
  test.trainer->Take(test.Lane(1, 0, 3, 4));
  test.Waits({1});
  CHECK(test.trainer->Waits());
  test.trainer->Take(test.Lane(2, 1, 1, 2));
  test.Waits({1});
  CHECK(test.ps->UnderWay() == "pull");
  CHECK(test.trainer->Waits());
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.1 for 2");
  CHECK_FALSE(test.trainer->Waits());
}

TEST_CASE("a lane goes on to its new end, also one that is pushed when that comes") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 0, 0, 1));
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.0");
  test.trainer->Take(test.Lane(1, 0, 0, 2));
  test.Values();
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.Values();
  test.Values();
  CHECK(test.reports == Said{"1 at 1", "1 ended at 2"});
  test.trainer->Take(test.Lane(1, 0, 0, 4));
  CHECK(test.ps->UnderWay().empty());
  CHECK(test.trainer->Idle());
}

TEST_CASE("a rejected batch of a lane is entered without waiting for its round") {
  RoundsFixture test;
  Lease lease = test.Lane(1, 0, 2, 4);
  lease.add_rejected(2);
  test.trainer->Take(lease);
  CHECK(test.ps->UnderWay() == "reject 0.2 for 3");
  test.Waits({1});
  CHECK(test.reports == Said{"1 at 3"});
  CHECK(test.ps->UnderWay() == "pull for 3");
}

TEST_CASE("a ps that answers at once that lanes are behind is not asked without end") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  test.Waits({1}, /*ms=*/0);
  CHECK(test.ps->UnderWay().empty());
  test.loop.Advance(50);
  CHECK(test.ps->UnderWay() == "pull for 1");
}

TEST_CASE("a worker that drains while it waits gives its lanes back when the pull is answered") {
  RoundsFixture test;
  bool drained = false;
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  test.trainer->Take(test.Lane(2, 1, 1, 4));
  test.trainer->Drain([&] { drained = true; });
  CHECK_FALSE(drained);
  test.Waits({2});
  CHECK(drained);
  CHECK(test.ps->UnderWay().empty());
  CHECK(test.reports == Said{"1 ended at 1 PROBLEM_DRAINED", "2 ended at 1 PROBLEM_DRAINED"});
}

TEST_CASE("a worker that cannot reach a ps gives all lanes back, and wants none until all answer") {
  RoundsFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  test.trainer->Take(test.Lane(2, 1, 1, 4));
  test.Waits({2});
  test.Fail(absl::UnavailableError("no connection"));
  const Said lost = {"1 ended at 1 PROBLEM_UNREACHABLE", "2 ended at 1 PROBLEM_UNREACHABLE"};
  CHECK(test.reports == lost);
  CHECK(test.trainer->Idle());
  CHECK_FALSE(test.trainer->WantsTask());
  CHECK(test.trainer->WaitsFor().empty());
  test.trainer->Take(test.Lane(3, 2, 1, 4));  // the lease was on its way
  CHECK(test.reports.back() == "3 ended at 1 PROBLEM_UNREACHABLE");
  for (int i = 0; i < 3; ++i) {
    test.loop.Advance(200);
    CHECK(test.ps->UnderWay() == "pull");
    CHECK_FALSE(test.trainer->WantsTask());
    test.Fail(absl::UnavailableError("no connection"));
  }
  test.loop.Advance(200);
  const int wanted = test.wanted;
  test.Values();
  CHECK(test.trainer->WantsTask());
  CHECK(test.wanted > wanted);
  test.trainer->Take(test.Lane(4, 0, 1, 4));
  CHECK(test.ps->UnderWay() == "pull for 1");
}

TEST_CASE("a worker that cannot reach a ps leaves at once when it drains") {
  const bool drains_first = GENERATE(false, true);
  RoundsFixture test;
  bool drained = false;
  const auto drain = [&] { test.trainer->Drain([&] { drained = true; }); };
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  if (drains_first) drain();
  test.Fail(absl::UnavailableError("no connection"));
  CHECK(test.reports == Said{"1 ended at 1 PROBLEM_UNREACHABLE"});
  if (!drains_first) drain();
  test.loop.RunPosted();
  CHECK(drained);
  test.loop.Advance(1000);
  EvaluationLease evaluation;
  evaluation.set_id(9);
  test.trainer->Take(evaluation);
  CHECK(test.reports.back() == "evaluation 9 PROBLEM_UNREACHABLE");
}

TEST_CASE("with overlap a batch is computed ahead on values that are recent enough for it, too") {
  RoundsFixture test(/*staleness=*/1, /*overlap=*/true);
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  CHECK(test.ps->UnderWay() == "pull for 1");  // state of batch 2
  test.Values();
  // State of batch 3; batch 2 is computed meanwhile.
  CHECK(test.ps->UnderWay() == "push 0.1 for 2");
  CHECK(test.figures->computed == 2);
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 2");
  CHECK(test.figures->computed == 3);
}

TEST_CASE("with overlap and no staleness nothing is computed on values of the round before") {
  RoundsFixture test(/*staleness=*/0, /*overlap=*/true);
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.1 for 2");
  CHECK(test.figures->computed == 1);
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 3");
  CHECK(test.figures->computed == 2);
}

}  // namespace
}  // namespace paracord
