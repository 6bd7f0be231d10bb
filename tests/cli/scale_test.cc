// `paracord scale --wait` ends with the move, and with the job if that ends first.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "net/grpc/network.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"
#include "tests/coordinator/core_harness.h"
#include "tests/coordinator/move_job.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A coordinator with one ps, which is asked for two, behind a real listener. It answers each look
// as its core says then; before the look number `change_at` it does `change`.
class ScaledCoordinator : public Service {
 public:
  ScaledCoordinator(CoreHarness& core, int change_at, std::function<void(CoreHarness&)> change)
      : core_(core), change_at_(change_at), change_(std::move(change)) {}
  void Handle(std::string_view method, absl::Cord body, std::shared_ptr<ServerCall> call) override {
    const MutexLock lock(mu_);
    if (method == method::kScale) {
      ScaleRequest request;
      request.ParseFromString(std::string(body));
      core_.Feed(ScaleEvent{++core_.call, request});
      if (!core_.scaled.ok()) return call->Reply(core_.scaled.status());
      return call->Reply(Parts{absl::Cord(core_.scaled->SerializeAsString())});
    }
    if (method != method::kStatus) return call->Reply(absl::UnimplementedError("no"));
    if (++looks_ == change_at_) change_(core_);
    core_.Run(200);
    StatusReply reply;
    reply.set_json(core_.Told().StatusJson());
    call->Reply(Parts{absl::Cord(reply.SerializeAsString())});
  }

 private:
  Mutex mu_;
  CoreHarness& core_ ABSL_GUARDED_BY(mu_);
  const int change_at_;
  const std::function<void(CoreHarness&)> change_;
  int looks_ ABSL_GUARDED_BY(mu_) = 0;
};

struct ScaleRan {
  int code = -1;
  std::string out, err;
};

// Asks a coordinator for so many ps, and waits for the move.
ScaleRan ScaleAt(Service& coordinator, const std::vector<std::string>& ps) {
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + (directory / "coordinator");
  const auto listener = network.Listen(address, coordinator);
  REQUIRE(listener.ok());
  std::ostringstream out, err;
  std::vector<std::string> args = {"--address", address, "--wait", "--ps"};
  args.insert(args.end(), ps.begin(), ps.end());
  const int code = RunScale(args, out, err);
  return {code, out.str(), err.str()};
}

// Asks a job on two ps for a third one, which does not answer, and changes something before the
// third look.
ScaleRan ScaleAndWait(CoreHarness& core, const std::function<void(CoreHarness&)>& change) {
  core.dead = {2};
  REQUIRE(core.Join("worker:0") != 0);
  ScaledCoordinator coordinator(core, /*change_at=*/3, change);
  return ScaleAt(coordinator, {"3", "--ps-address", "unix:/ps-2"});
}

TEST_CASE("scale --wait ends with 1 when the job ends before it has moved") {
  CoreHarness core([](Job& job) { job.epochs = 1; });
  const ScaleRan ran =
      ScaleAndWait(core, [](CoreHarness& harness) { TrainAll(harness, harness.Join("worker:0")); });
  INFO(ran.out << ran.err);
  CHECK(core.core->phase() == Phase::kEnded);
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out,
             Catch::Contains("looking at the new ps: ps:2 at unix:/ps-2: no connection\n"));
  CHECK_THAT(ran.err, Catch::Contains("the job has ended, and has not moved: its summary.json"));
}

TEST_CASE("scale --wait ends with 1 and the reason when the move is given up") {
  CoreHarness core;
  const ScaleRan ran = ScaleAndWait(core, [](CoreHarness& harness) {
    ScaleRequest present;
    present.set_ps(2);
    harness.Feed(ScaleEvent{++harness.call, present});
  });
  INFO(ran.out << ran.err);
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err,
             Catch::Contains("the move is given up: cancelled by `paracord scale --ps 2`"));
}

TEST_CASE("scale --wait ends with 202 when another coordinator leads, which knows of no move") {
  CoreHarness core, next;
  const ScaleRan ran = ScaleAndWait(core, [&](CoreHarness& harness) {
    harness.core = std::move(next.core);  // its successor
  });
  INFO(ran.out << ran.err);
  CHECK(ran.code == 202);
  CHECK_THAT(ran.err, Catch::Contains("the coordinator does not know of the move"));
}

// Says, look after look, what is in a list, and the last entry for ever.
class SaidStatuses : public Service {
 public:
  SaidStatuses(nlohmann::json plan, std::vector<nlohmann::json> statuses)
      : plan_(std::move(plan)), statuses_(std::move(statuses)) {}
  void Handle(std::string_view method, absl::Cord, std::shared_ptr<ServerCall> call) override {
    const MutexLock lock(mu_);
    if (method == method::kScale) {
      ScaleReply reply;
      reply.set_json(TextOf(plan_));
      return call->Reply(Parts{absl::Cord(reply.SerializeAsString())});
    }
    StatusReply reply;
    reply.set_json(TextOf(statuses_[std::min(looks_++, statuses_.size() - 1)]));
    call->Reply(Parts{absl::Cord(reply.SerializeAsString())});
  }

 private:
  Mutex mu_;
  const nlohmann::json plan_;
  const std::vector<nlohmann::json> statuses_;
  size_t looks_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_CASE("scale --wait reports the end of a move whose layout another coordinator has found") {
  CoreHarness core;
  TrainOneSplit(core);
  core.silent_load = true;
  Scale(core, 1);
  const nlohmann::json loads = JsonOf(core.Told().StatusJson());
  REQUIRE(loads.at("move").at("phase") == "loading");
  // Its successor has read the layout in job.state, and knows of no move.
  nlohmann::json forms = loads;
  forms.erase("move");
  forms.update({{"phase", "forming"}, {"waiting", "missing ps:0"}});
  nlohmann::json trains = forms;
  trains["phase"] = "training";
  const bool old_layout = GENERATE(false, true);
  if (old_layout) forms["layout_version"] = trains["layout_version"] = 0;
  SaidStatuses coordinator(JsonOf(core.scaled->json()), {loads, forms, forms, trains});
  const ScaleRan ran = ScaleAt(coordinator, {"1"});
  INFO(ran.out << ran.err);
  CHECK(ran.code == (old_layout ? 202 : 0));
  CHECK(ran.out.ends_with("\nloading: missing ps:0\ndone\n") == !old_layout);
}

TEST_CASE("scale says that there is nothing to do where the job has as many ps, evenly filled") {
  CoreHarness core;
  TrainOneSplit(core);
  ScaledCoordinator coordinator(core, /*change_at=*/0, nullptr);
  const ScaleRan ran = ScaleAt(coordinator, {"2"});
  CHECK(ran.code == 0);
  CHECK(ran.out == "nothing to do: the job has 2 ps, and its partitions are spread evenly\n");
}

}  // namespace
}  // namespace paracord
