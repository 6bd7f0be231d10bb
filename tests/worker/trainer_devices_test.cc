// A trainer with several devices: which lanes are computed in parallel, and how they are pushed.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/worker/rounds_fixture.h"

namespace paracord {
namespace {

const TrainerOptions kAdds{.sync = true, .adds_lanes = true};

struct DevicesFixture : RoundsFixture {
  DevicesFixture(TrainerOptions options, uint32_t lanes, size_t devices,
                 std::shared_ptr<DeviceSum> sum = nullptr)
      : RoundsFixture(options, lanes, devices, nullptr, /*examples=*/1, std::move(sum)) {}

  void TakeLanes(uint64_t first, uint64_t end, uint32_t rounds) {
    std::vector<Lease> leases;
    for (uint64_t lane = first; lane < end; ++lane) {
      leases.push_back(Lane(lane + 1, lane, 0, rounds));
    }
    trainer->Take(leases);
  }
  // Answers exchanges until there are none. Returns them.
  Said All() {
    Said all;
    while (!ps->UnderWay().empty()) {
      all.push_back(ps->UnderWay());
      Values();
    }
    return all;
  }
};

TEST_CASE(
    "lanes that are computed side by side are pushed one after another where none are added") {
  DevicesFixture test(TrainerOptions{.sync = true}, 3, 2);
  test.TakeLanes(0, 3, 1);
  CHECK(test.All() == Said{"pull for 0", "push 0.0 for 0", "push 1.0 for 0", "push 2.0 for 1"});
  CHECK(test.figures->computed == 3);
  CHECK(test.trainer->TakeCounters().duplicates == 0);
}

TEST_CASE("a bounded staleness has lanes computed side by side, too") {
  DevicesFixture test(TrainerOptions{.staleness = 1}, 3, 4);
  test.TakeLanes(0, 3, 3);
  const Said said = test.All();
  CHECK(said == Said{"pull", "push 0.0", "push 1.0", "push 2.0", "push 0.1", "push 1.1",
                     "push 2.1 for 1", "push 0.2 for 1", "push 1.2 for 1", "push 2.2"});
  CHECK(test.figures->computed == 9);
}

TEST_CASE("runs of lanes whose number is a power of two that divides the first are added up") {
  const auto said = [](uint64_t first, uint64_t end, size_t devices) {
    DevicesFixture test(kAdds, 8, devices);
    test.TakeLanes(first, end, 1);
    Said all = test.All();
    CHECK(all[0] == "pull for 0");
    CHECK(test.trainer->TakeCounters().computed == end - first);
    return Said(all.begin() + 1, all.end());
  };
  CHECK(said(0, 4, 4) == Said{"push 0 to 3.0 for 1"});
  CHECK(said(0, 3, 4) == Said{"push 0 to 1.0 for 0", "push 2.0 for 1"});
  CHECK(said(1, 5, 4) == Said{"push 1.0 for 0", "push 2 to 3.0 for 0", "push 4.0 for 1"});
  CHECK(said(2, 6, 4) == Said{"push 2 to 3.0 for 0", "push 4 to 5.0 for 1"});
  CHECK(said(0, 4, 2) == Said{"push 0 to 1.0 for 0", "push 2 to 3.0 for 1"});
  CHECK(said(0, 8, 3) == Said{"push 0 to 1.0 for 0", "push 2.0 for 0", "push 3.0 for 0",
                              "push 4 to 5.0 for 0", "push 6 to 7.0 for 1"});
}

TEST_CASE("a run shows the proofs of all its lanes, and moves all their leases on") {
  DevicesFixture test(kAdds, 4, 2);
  test.TakeLanes(0, 2, 2);
  test.Values();
  CHECK(test.ps->order().proof == "proof of lane 0proof of lane 1");
  test.Values();
  CHECK(test.reports == Said{"1 at 1", "2 at 1"});
  CHECK(test.ps->UnderWay() == "push 0 to 1.1 for 2");
  test.Values();
  CHECK(test.reports == Said{"1 at 1", "2 at 1", "1 ended at 2", "2 ended at 2"});
  CHECK(test.trainer->TakeCounters().samples == 4);
}

TEST_CASE(
    "a run of which a ps has some lanes comes again lane by lane, and the next one as a run") {
  DevicesFixture test(kAdds, 4, 2);
  test.TakeLanes(0, 2, 2);
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0 to 1.0 for 1");
  ExchangeResult partly;
  partly.outcome.partly = partly.outcome.waits = true;
  test.ps->Answer(partly);
  test.loop.RunPosted();
  CHECK(test.reports.empty());
  CHECK(test.All() ==
        Said{"pull for 0", "push 0.0 for 0", "push 1.0 for 1", "push 0 to 1.1 for 2"});
  CHECK(test.trainer->TakeCounters().duplicates == 2);
}

TEST_CASE("a run that a ps refuses comes again lane by lane, so that the lane at fault is named") {
  DevicesFixture test(kAdds, 4, 2);
  test.TakeLanes(0, 2, 1);
  test.Values();
  test.Fail(absl::InvalidArgumentError("a gradient is not one"));
  CHECK(test.reports.empty());
  CHECK(test.ps->UnderWay() == "pull for 0");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.0 for 0");
  test.Fail(absl::InvalidArgumentError("a gradient is not one"));
  CHECK(test.reports == Said{"1 ended at 0 PROBLEM_SHAPE"});
}

// The sum of two devices, which fails in the first round.
class FailingSum : public DeviceSum {
 public:
  size_t devices() const override { return 2; }
  void Begin(std::span<const LaneShare>) override { ++begun; }
  absl::Status Complete(size_t device) override {
    const bool fails = begun == 1 && device == 1;
    return fails ? absl::InternalError("no zeros") : absl::OkStatus();
  }
  int begun = 0;
};

TEST_CASE("a run that devices fail to add up comes again lane by lane, and counts once") {
  const auto sum = std::make_shared<FailingSum>();
  DevicesFixture test(kAdds, 4, 2, sum);
  test.TakeLanes(0, 2, 3);
  CHECK(test.All() == Said{"pull for 0", "push 0.0 for 0", "push 1.0 for 1", "push 0 to 1.1 for 2",
                           "push 0 to 1.2 for 3"});
  CHECK(sum->begun == 3);
  const StepCounters counters = test.trainer->TakeCounters();
  CHECK(counters.duplicates == 2);
  CHECK(counters.computed == 6);
  CHECK(counters.samples == 6);
}

TEST_CASE("a rejected lane is pushed by itself, and what follows it is no run with it") {
  DevicesFixture test(kAdds, 4, 4);
  Lease rejected = test.Lane(2, 1, 0, 1);
  rejected.add_rejected(0);
  test.trainer->Take(std::vector<Lease>{test.Lane(1, 0, 0, 1), rejected, test.Lane(3, 2, 0, 1),
                                        test.Lane(4, 3, 0, 1)});
  CHECK(test.All() ==
        Said{"pull for 0", "push 0.0 for 0", "reject 1.0 for 0", "push 2 to 3.0 for 1"});
}

TEST_CASE("what was computed for a push is dropped where ps cannot be reached") {
  DevicesFixture test(TrainerOptions{.sync = true}, 4, 2);
  test.TakeLanes(0, 2, 1);
  test.Values();
  CHECK(test.ps->UnderWay() == "push 0.0 for 0");
  test.Fail(absl::UnavailableError("no connection"));
  CHECK(test.reports ==
        Said{"1 ended at 0 PROBLEM_UNREACHABLE", "2 ended at 0 PROBLEM_UNREACHABLE"});
  test.loop.Advance(200);
  test.Values();
  test.trainer->Take(test.Lane(5, 1, 0, 1));
  CHECK(test.ps->UnderWay() == "pull for 0");
  test.Values();
  CHECK(test.ps->UnderWay() == "push 1.0 for 1");
  CHECK(test.figures->computed == 3);
}

}  // namespace
}  // namespace paracord
