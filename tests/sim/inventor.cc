#include "sim/inventor.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kCallMs = 2000;

}  // namespace

Inventor::Inventor(std::string coordinator, JobFacts facts, DataPlan plan, uint64_t epochs,
                   Environment environment, SimRandom chance, std::function<void(int)> exit)
    : facts_(std::move(facts)),
      plan_(std::move(plan)),
      epochs_(epochs),
      environment_(environment),
      chance_(chance),
      exit_(std::move(exit)),
      boot_id_(absl::StrCat("inventor-", environment_.random.Next())),
      coordinator_(environment_.network.Dial(coordinator)) {}

void Inventor::Later(void (Inventor::*then)()) {
  environment_.loop.PostAfter(chance_.Between(20, 300),
                              gate_.Enter([this, then] { (this->*then)(); }));
}

void Inventor::Join() {
  JoinRequest request;
  request.set_task("worker:500");
  request.set_boot_id(boot_id_);
  request.set_protocol(kProtocol);
  *request.mutable_facts() = facts_;
  CallProto<JoinReply>(
      *coordinator_, method::kJoin, request, kCallMs,
      gate_.EnterOn(environment_.loop,
                    [this](const absl::StatusOr<JoinReply>& reply) { Joined(reply); }));
}

void Inventor::Joined(const absl::StatusOr<JoinReply>& reply) {
  if (!reply.ok()) return Later(&Inventor::Join);
  if (reply->has_leave()) return exit_(reply->leave().exit_code());
  if (reply->has_job_json()) facts_.set_job(reply->job());
  if (!reply->has_session()) return Later(&Inventor::Join);
  session_ = reply->session().id();
  Later(&Inventor::Lie);
}

// Reports twice the loss that the counting workload gives a batch: the batch then seems to count
// twice.
void Inventor::Lie() {
  PROBE("sim.invented");
  WorkRequest request;
  request.set_session(session_);
  request.set_report(++reports_);
  const auto below = [this](uint64_t end) {
    return static_cast<uint64_t>(chance_.Between(0, static_cast<int64_t>(end) - 1));
  };
  const BatchId batch = BatchAt(plan_, below(epochs_), below(BatchesPerEpoch(plan_)));
  TrainedBatches& told = *request.add_trained();
  told.set_epoch(batch.epoch());
  told.set_split(batch.split());
  told.set_first_batch(batch.batch());
  const auto place = static_cast<double>(BatchInEpoch(plan_, batch.split(), batch.batch()));
  told.add_losses(2 * std::pow(4.0, place) / BatchExamples(plan_, batch.split(), batch.batch()));
  MetricState& state = *told.add_metrics();
  state.set_kind(METRIC_EXP);
  for (const double value : {2.0, 1.0}) state.add_values(value);
  CallProto<WorkReply>(
      *coordinator_, method::kWork, request, kCallMs,
      gate_.EnterOn(environment_.loop,
                    [this](const absl::StatusOr<WorkReply>& reply) { Answered(reply); }));
}

void Inventor::Answered(const absl::StatusOr<WorkReply>& reply) {
  if (reply.ok() && reply->has_leave()) return exit_(reply->leave().exit_code());
  Later(reply.ok() && reply->has_rejoin() ? &Inventor::Join : &Inventor::Lie);
}

}  // namespace paracord
