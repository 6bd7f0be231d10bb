// A trainer in synchronous training: which states the trainer requests, and how it behaves without
// them.
#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <vector>

#include "common/limit_error.h"
#include "exchange/state_gone.h"
#include "tests/worker/rounds_fixture.h"

namespace paracord {
namespace {

struct SyncFixture : RoundsFixture {
  SyncFixture() : RoundsFixture(TrainerOptions{.sync = true}) {}
};

// A variable whose gradient is 1.
class OneStepGradient : public NoVariables {
 public:
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors gradients) override {
    gradients[0][0] = 1;
    return 0.5;
  }

 private:
  std::vector<VariableSpec> variables_{1};
};

class OneArray : public NoArrays {
 public:
  MutableTensors gradients() const override { return spans_; }
  float gradient() const { return array_[0]; }

 private:
  std::vector<float> array_ = {0};
  std::vector<std::span<float>> spans_ = {array_};
};

TEST_CASE("a lane whose bad records are left out weighs as the plan says, which its ps divide by") {
  for (const uint32_t read : {4u, 1u}) {
    CAPTURE(read);
    RoundsFixture test(TrainerOptions{.sync = true}, 3, 1, std::make_unique<OneStepGradient>(), 4);
    test.batch->examples = read;
    if (read < 4) test.batch->left_out = {"a.csv row 3: x", "a.csv row 4: x", "a.csv row 5: x"};
    const auto array = std::make_shared<OneArray>();
    test.ps->arrays = array;
    test.trainer->Take(test.Lane(1, 1, 0, 1));
    test.Values();
    REQUIRE(test.ps->UnderWay() == "push 1.0 for 1");
    CHECK(array->gradient() == 1);  // a full batch by the data plan
    test.Values();
    // The history has the number of records read, and the problem of the unreadable ones.
    const TrainedLog told = test.trainer->TakeCounters().trained;
    REQUIRE(told.batches.size() == 1);
    CHECK(told.batches[0].split() == 1);
    CHECK(told.batches[0].losses_size() == 1);
    CHECK(told.batches[0].examples_size() == (read < 4 ? 1 : 0));
    if (read < 4) CHECK(told.batches[0].examples(0) == read);
    CHECK(told.bad_records == test.batch->left_out);
  }
}

TEST_CASE("in synchronous training each batch is computed on exactly the state before its round") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 1, 0, 2));
  CHECK(test.ps->UnderWay() == "pull for 0");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.0 for 1");
  test.Values();
  // The push also asks for the state after the last batch at hand, which serves if the lease goes
  // on.
  CHECK(test.ps->UnderWay() == "push 1.1 for 2");
  test.trainer->Take(test.Lane(1, 1, 0, 3));
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.2 for 3");
  test.Values();
  CHECK(test.reports == Said{"1 at 1", "1 at 2", "1 ended at 3"});
  CHECK(test.ps->UnderWay().empty());
}

TEST_CASE("the push of the last lane of a round asks for the next state, and those before do not") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 3));
  test.trainer->Take(test.Lane(2, 2, 1, 3));
  Said under_way;
  while (!test.ps->UnderWay().empty()) {
    under_way.push_back(test.ps->UnderWay());
    test.Values();
  }
  CHECK(under_way ==
        Said{"pull for 1", "push 0.1 for 1", "push 2.1 for 2", "push 0.2 for 2", "push 2.2 for 3"});
}

TEST_CASE("a lane of the round before, granted while a pull waits, has its state pulled again") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 3));
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.1 for 2");
  test.trainer->Take(test.Lane(2, 1, 1, 3));
  test.Waits({1});  // some values may be of state 2
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.1 for 2");
  test.Waits({2});
  CHECK(test.ps->UnderWay() == "pull for 2");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 2");
}

TEST_CASE("values of a later state do not serve a lane of the round before") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 2));
  test.Values();
  test.Values();  // state 2, though no lane is left
  test.trainer->Take(test.Lane(2, 1, 1, 2));
  CHECK(test.ps->UnderWay() == "pull for 1");
}

TEST_CASE("a lane of a round that is over, granted while a pull is under way, is not asked for") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 2, 4));
  CHECK(test.ps->UnderWay() == "pull for 2");
  test.trainer->Take(test.Lane(2, 1, 1, 2));  // a backup worker's lease has one round
  test.trainer->Take(test.Lane(3, 2, 1, 3));
  test.Values();  // state 2: every partition has the batches of round 1
  CHECK(test.reports == Said{"2 ended at 2", "3 at 2"});
  CHECK(test.ps->UnderWay() == "push 0.2 for 2");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 2.2 for 3");
}

TEST_CASE("a rejected batch is entered by who has the state before its round, and asks for one") {
  SyncFixture test;
  Lease lease = test.Lane(1, 0, 2, 4);
  lease.add_rejected(2);
  lease.add_rejected(3);
  test.trainer->Take(lease);
  CHECK(test.ps->UnderWay() == "pull for 2");
  test.Waits({1});
  CHECK(test.ps->UnderWay() == "pull for 2");
  test.Values();
  CHECK(test.ps->UnderWay() == "reject 0.2 for 3");
  test.Values();
  CHECK(test.ps->UnderWay() == "reject 0.3 for 4");
  CHECK(test.figures->computed == 0);
}

TEST_CASE("a lease ends with a gap where somebody else is further, and not at a limit of a ps") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.Fail(StateGone(7, 1, 3, /*before=*/true));
  CHECK(test.reports == Said{"1 ended at 1 PROBLEM_GAP"});
  CHECK(test.trainer->WantsTask());
  test.loop.Advance(20);
  test.trainer->Take(test.Lane(2, 0, 2, 4));
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.2 for 3");
  test.Fail(StateGone(7, 3, 4, /*before=*/false));
  CHECK(test.reports.back() == "2 ended at 2 PROBLEM_GAP");
  test.loop.Advance(20);
  test.trainer->Take(test.Lane(3, 0, 3, 4));
  test.Fail(LimitError("too large"));
  CHECK(test.reports.back() == "3 ended at 3 PROBLEM_LIMIT");
}

TEST_CASE("a worker asks its ps only now and then for a state that they have left") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 4));
  for (uint64_t id = 2; id < 5; ++id) {
    REQUIRE(test.ps->UnderWay() == "pull for 1");
    const int wanted = test.wanted;
    test.Fail(StateGone(7, 1, 3, /*before=*/true));
    CHECK(test.wanted > wanted);
    // The coordinator does not know yet that other workers did the batch.
    test.trainer->Take(test.Lane(id, 0, 1, 4));
    test.loop.Advance(19);
    CHECK(test.ps->UnderWay().empty());
    test.loop.Advance(1);
  }
  // Other lanes at hand are computed at once.
  test.trainer->Take(test.Lane(5, 1, 3, 4));
  test.Fail(StateGone(7, 1, 3, /*before=*/true));
  CHECK(test.ps->UnderWay() == "pull for 3");
}

TEST_CASE("after an evaluation, which has the values of now, a batch has its state again") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 2));
  test.Values();
  EvaluationLease evaluation;
  evaluation.set_id(9);
  test.trainer->Take(evaluation);
  test.Values();
  CHECK(test.ps->UnderWay() == "pull");
  test.Values();
  CHECK(test.reports.back().substr(0, 12) == "evaluation 9");
  test.trainer->Take(test.Lane(2, 1, 2, 4));
  CHECK(test.ps->UnderWay() == "pull for 2");
}

TEST_CASE("lanes that a round lacks for long are late, until the worker has something to compute") {
  RoundsFixture test(TrainerOptions{.sync = true, .backup = 2});
  test.trainer->Take(test.Lane(1, 0, 0, 4));
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.0 for 1");
  CHECK(test.ps->order().wait_ms == 20);
  test.Waits({1, 2}, 20);
  CHECK(test.trainer->Late() == std::vector<uint32_t>{1, 2});
  CHECK(test.trainer->TakeCounters().waited_seconds == 0.02);
  CHECK(test.ps->UnderWay() == "pull for 1");
  test.trainer->Take(test.Lane(2, 1, 0, 1));  // a backup
  test.Waits({1, 2}, 25);
  CHECK(test.ps->UnderWay() == "pull for 0");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.0 for 1");
  CHECK(test.trainer->Late().empty());
  test.Waits({2}, 5);
  CHECK(test.reports.back() == "2 ended at 1");
  CHECK(test.trainer->Late() == std::vector<uint32_t>{2});
}

TEST_CASE("after ps that could not be reached a batch has its state again") {
  SyncFixture test;
  test.trainer->Take(test.Lane(1, 0, 1, 3));
  test.Values();
  test.Fail(absl::UnavailableError("no connection"));
  test.loop.Advance(200);
  CHECK(test.ps->UnderWay() == "pull");
  test.Values();
  test.trainer->Take(test.Lane(2, 0, 1, 3));
  CHECK(test.ps->UnderWay() == "pull for 1");
}

}  // namespace
}  // namespace paracord
