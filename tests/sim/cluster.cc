#include "sim/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/gate.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/coordinator.h"
#include "exchange/codec.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "server/parameter_server.h"
#include "sim/world/coverage.h"
#include "worker/worker.h"

namespace paracord {
namespace {

std::string PsAddress(uint32_t index) { return absl::StrCat("ps:", index); }
std::string CoordinatorAddress(uint32_t number) { return absl::StrCat("coordinator:", number); }

// A call that remembers its answer.
class WatchedCall : public ServerCall {
 public:
  explicit WatchedCall(std::shared_ptr<ServerCall> call) : call_(std::move(call)) {}
  void Reply(absl::StatusOr<Parts> reply) override {
    answer_ = reply.status();
    answered_ = true;
    if (reply.ok()) {
      for (const absl::Cord& part : *reply) bytes_.Append(part);
    }
    if (on_reply_) on_reply_();
    call_->Reply(std::move(reply));
  }
  void OnCancel(std::function<void()> fn) override { call_->OnCancel(std::move(fn)); }
  void OnReply(std::function<void()> fn) { on_reply_ = std::move(fn); }
  bool answered() const { return answered_; }
  const absl::Status& answer() const { return answer_; }
  const absl::Cord& bytes() const { return bytes_; }

 private:
  const std::shared_ptr<ServerCall> call_;
  absl::Status answer_;
  absl::Cord bytes_;
  std::function<void()> on_reply_;
  bool answered_ = false;
};

// A process that listens, and can be told to leave.
class Role : public SimProcess {
 public:
  virtual void Drain() = 0;

 protected:
  static std::function<void(int, std::string)> ExitFn(Supervisor& supervisor, SimNode& node) {
    return [&supervisor, &node](int code, const std::string&) { supervisor.Exit(node, code); };
  }
};

}  // namespace

class SimCluster::Ps : public Role, public Service {
 public:
  Ps(SimCluster& cluster, SimNode& node, uint32_t index)
      : cluster_(cluster),
        ps_({.index = index,
             .dir = SimDir(cluster.world_),
             .orphan_ms = cluster.plan_.job.timeouts.orphan_ms,
             .staged_bytes_max = 1500},
            node.environment(), ExitFn(cluster.supervisor_, node)) {
    auto listener = node.environment().network.Listen(PsAddress(index), *this);
    if (!listener.ok()) {
      cluster.supervisor_.Exit(node, static_cast<int>(ExitCode::kInUse));
      return;
    }
    listener_ = *std::move(listener);
  }

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    if (method == method::kExchange) return Exchange(request, std::move(call));
    const auto watched = std::make_shared<WatchedCall>(std::move(call));
    if (method == method::kLoad) {
      const auto load = ParseMessage<LoadRequest>(request);
      watched->OnReply([this, from = load.ok() ? load->checkpoint() : "", call = watched.get()] {
        if (call->answer().ok()) Loaded(from);
      });
    }
    ps_.Handle(method, request, watched);
    if (method != method::kAdopt || !watched->answered() || !watched->answer().ok()) return;
    const auto adopt = ParseMessage<AdoptRequest>(request);
    cluster_.oracle_.Adopted(adopt->generation(), adopt->coordinator_boot_id());
  }
  void Drain() override { ps_.Drain(); }

 private:
  // A repeated load may be answered when training is well under way, so it is checked only once.
  void Loaded(const std::string& checkpoint) {
    const std::shared_ptr<const Content> content = ps_.content();
    if (content == nullptr || content == loaded_) return;
    if (loaded_ != nullptr && loaded_->loaded_generation == content->loaded_generation) {
      cluster_.world_.Violation("a ps loads twice in one generation");
    }
    loaded_ = content;
    cluster_.oracle_.Loaded(*content, checkpoint);
  }

  void Exchange(const absl::Cord& request, std::shared_ptr<ServerCall> call) {
    const Oracle::PsSeen before = cluster_.oracle_.Look(ps_);
    const auto watched = std::make_shared<WatchedCall>(std::move(call));
    ps_.Handle(method::kExchange, request, watched);
    const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(request);
    if (!decoded.ok()) return cluster_.world_.Violation("a worker sends a broken exchange");
    const Oracle::PsSeen after = cluster_.oracle_.Look(ps_);
    if (watched->answered()) return Exchanged(*watched, *decoded, before, after);
    if (!decoded->header.has_state()) return cluster_.world_.Violation("an exchange waits");
    // Its push is entered, and its pull waits.
    watched->OnReply(gate_.Enter([this, call = watched.get(), request = *decoded, before, after] {
      if (call->answer().ok()) Exchanged(*call, request, before, after);
    }));
  }

  void Exchanged(const WatchedCall& call, const DecodedRequest& request,
                 const Oracle::PsSeen& before, const Oracle::PsSeen& after) {
    absl::StatusOr<DecodedReply> reply = DecodedReply();
    if (!call.answer().ok()) {
      reply = call.answer();
    } else {
      reply = DecodeExchangeReply(call.bytes());
      if (!reply.ok()) return cluster_.world_.Violation("a ps sends a broken answer");
    }
    const absl::StatusOr<ExchangeReply> answer =
        reply.ok() ? absl::StatusOr<ExchangeReply>(reply->header) : reply.status();
    cluster_.oracle_.Exchanged(ps_, request.header, answer, before, after);
    if (cluster_.sync_ != nullptr) {
      return cluster_.sync_->Answered(request.header, ReadStep(request), reply, after);
    }
    cluster_.rounds_.Answered(request.header, answer, cluster_.oracle_.Look(ps_));
  }

  SimCluster& cluster_;
  std::shared_ptr<const Content> loaded_;
  ParameterServer ps_;
  std::unique_ptr<Listener> listener_;
  Gate gate_;
};

class SimCluster::Chief : public Role, public Service {
 public:
  Chief(SimCluster& cluster, SimNode& node, uint32_t number)
      : cluster_(cluster),
        coordinator_(Options(cluster), node.environment(), ExitFn(cluster.supervisor_, node)) {
    auto listener = node.environment().network.Listen(CoordinatorAddress(number), *this);
    if (!listener.ok()) {
      cluster.supervisor_.Exit(node, static_cast<int>(ExitCode::kInUse));
      return;
    }
    listener_ = *std::move(listener);
    node.environment().loop.Post([this] { coordinator_.Start(/*address=*/""); });
  }
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    if (method == method::kWork && cluster_.LieNow()) request = Ahead(request);
    coordinator_.Handle(method, std::move(request), std::move(call));
  }
  void Drain() override { coordinator_.Drain("SIGTERM"); }

 private:
  // Reports more progress than there was, which the coordinator takes only as a hint.
  static absl::Cord Ahead(const absl::Cord& bytes) {
    absl::StatusOr<WorkRequest> request = ParseMessage<WorkRequest>(bytes);
    if (!request.ok()) return bytes;
    for (LeaseReport& report : *request->mutable_leases()) {
      if (report.problem() != PROBLEM_NONE) continue;  // it names the batch that failed
      PROBE("sim.report_ahead");
      report.set_next(report.next() + 1);
      report.set_ended(true);
    }
    return absl::Cord(request->SerializeAsString());
  }

  static CoordinatorOptions Options(SimCluster& cluster) {
    CoordinatorOptions options;
    options.job = cluster.plan_.job;
    // Every second coordinator that comes back has another job for the daemons that live on.
    options.job.timeouts.drain_ms += ++cluster.coordinators_ / 2 % 2;
    options.dir = SimDir(cluster.world_);
    for (uint32_t i = 0; i < cluster.plan_.ps; ++i) options.ps_addresses.push_back(PsAddress(i));
    // The workers' places follow the coordinator's and those of the ps.
    for (uint32_t i = 0; i < cluster.plan_.workers; ++i) {
      options.workers.push_back(absl::StrCat("worker:", 1 + cluster.plan_.ps + i));
    }
    return options;
  }

  SimCluster& cluster_;
  Coordinator coordinator_;
  std::unique_ptr<Listener> listener_;
};

class SimCluster::Trainer : public Role {
 public:
  Trainer(SimCluster& cluster, SimNode& node, std::string task, std::string coordinator,
          uint32_t devices)
      : worker_(
            {.task = std::move(task),
             .coordinator = std::move(coordinator),
             .device = "cpu",
             .dir = SimDir(cluster.world_),
             .orphan_ms = cluster.plan_.job.timeouts.orphan_ms,
             .early_push_bytes = cluster.plan_.early_push ? 1 : kEarlyPushBytes},
            [&counting = cluster.plan_.counting, devices](const Job&) -> absl::StatusOr<Workload> {
              return MakeCountingWorkload(counting, devices);
            },
            node.environment(), ExitFn(cluster.supervisor_, node)) {
    node.environment().loop.Post([this] { worker_.Start(); });
  }
  void Drain() override { worker_.Drain("SIGTERM"); }

 private:
  Worker worker_;
};

SimCluster::SimCluster(SimWorld& world, ClusterPlan plan)
    : world_(world),
      plan_(std::move(plan)),
      chance_(world.Fork(7)),
      oracle_(world, plan_.job, plan_.counting, plan_.epochs, plan_.calm && plan_.lanes == 0),
      rounds_(world, oracle_.plan(), plan_.staleness),
      supervisor_(world),
      nemesis_(world, supervisor_) {
  if (plan_.job.guarantees.sync()) {
    sync_ = std::make_unique<SyncOracle>(world, plan_.job, plan_.counting, oracle_.plan());
    oracle_.OnCheckpoint([this](const auto& name, const auto& stored, const auto& grown) {
      sync_->CheckCheckpoint(name, stored, grown);
    });
    oracle_.OnSummary([this](const nlohmann::json& summary) { sync_->CheckEvaluations(summary); });
  }
  if (plan_.calm) world_.swarm() = world_.swarm().Healed();
  // Work takes long compared to the time between faults, or none would happen before the job is
  // done.
  world_.swarm().work_us_max = chance_.Between(20'000, 300'000);
  SimNode& setup = world_.Start("setup", 63);
  Files& files = setup.environment().files;
  (void)files.MakeDirectories(SimDir(world_));
  (void)files.SyncDirectory("/");
  world_.Kill(setup, Death::kExit);
  supervisor_.RestartAfterExit(
      [this](uint32_t place, int exit_code) { return MayRestart(place, exit_code); });
  coordinator_place_ = AddCoordinator(1);
  for (uint32_t i = 0; i < plan_.ps; ++i) ps_places_.push_back(AddPs(i));
  for (uint32_t i = 0; i < plan_.workers; ++i) worker_places_.push_back(AddWorker());
  world_.AfterEveryEvent([this] { oracle_.LookAtDisk(); });
}

SimCluster::~SimCluster() = default;

uint32_t SimCluster::AddPs(uint32_t index) {
  return supervisor_.AddPlace(PsAddress(index), [this, index](SimNode& node) {
    return std::make_unique<Ps>(*this, node, index);
  });
}

uint32_t SimCluster::AddCoordinator(uint32_t number) {
  return supervisor_.AddPlace(CoordinatorAddress(number), [this, number](SimNode& node) {
    return std::make_unique<Chief>(*this, node, number);
  });
}

uint32_t SimCluster::AddWorker() {
  const auto index = static_cast<uint32_t>(supervisor_.places());
  return supervisor_.AddPlace(absl::StrCat("worker:", index), [this, index](SimNode& node) {
    // A worker sometimes has another index, and sometimes the other coordinator.
    const auto alias = static_cast<uint32_t>(chance_.Chance(0.2) ? chance_.Between(1, 2) : 0);
    const bool other = second_lives_ && !healed_ && chance_.Chance(0.5);
    return std::make_unique<Trainer>(*this, node, absl::StrCat("worker:", index + 64 * alias),
                                     CoordinatorAddress(other ? 2 : 1), DevicesOf(index));
  });
}

uint32_t SimCluster::DevicesOf(uint32_t worker) const {
  return plan_.devices.empty() ? 1 : plan_.devices[worker % plan_.devices.size()];
}

bool SimCluster::MayRestart(uint32_t place, int exit_code) {
  const std::string name = supervisor_.name(place);
  const bool coordinator = place == coordinator_place_ || (place == second_place_ && place != 0);
  if (exit_code == 0) {
    job_over_ = job_over_ || coordinator;
    // Nobody else leaves with 0 unless the final checkpoint is there; CheckEnd looks at it.
    return false;
  }
  if (exit_code < 128 && exit_code != static_cast<int>(ExitCode::kInUse)) {
    world_.Violation(absl::StrCat(name, " exits with ", exit_code));
  }
  if (coordinator) return place == coordinator_place_ ? !job_over_ : !healed_;
  const bool worker =
      std::find(worker_places_.begin(), worker_places_.end(), place) != worker_places_.end();
  return !(worker && job_over_);
}

bool SimCluster::LieNow() { return plan_.reports_ahead && !healed_ && chance_.Chance(0.1); }

void SimCluster::AfterMs(int64_t delay_ms, const char* label, std::function<void()> fn) {
  world_.After(delay_ms * 1000, nullptr, EventKind::kWorld, label, 0, [this, fn = std::move(fn)] {
    if (!healed_) fn();
  });
}

void SimCluster::StartFaults() {
  nemesis_.Start();
  for (uint32_t i = 0; i < plan_.late_workers; ++i) {
    AfterMs(chance_.Between(10, plan_.fault_ms), "sim.join",
            [this] { worker_places_.push_back(AddWorker()); });
  }
  if (plan_.drain_every_ms > 0) {
    AfterMs(chance_.Between(1, 2 * plan_.drain_every_ms), "sim.drain", [this] { DrainSomebody(); });
  }
  if (plan_.second_coordinator) {
    AfterMs(chance_.Between(1, plan_.fault_ms), "sim.second", [this] { StartSecond(); });
  }
  if (plan_.damage) {
    AfterMs(chance_.Between(plan_.fault_ms / 2, plan_.fault_ms), "sim.damage",
            [this] { DamageNewest(); });
  }
}

void SimCluster::DrainSomebody() {
  const auto last = static_cast<int64_t>(supervisor_.places()) - 1;
  const auto place = static_cast<uint32_t>(chance_.Between(0, last));
  SimNode* const node = supervisor_.node(place);
  auto* const role = static_cast<Role*>(supervisor_.process(place));
  if (node != nullptr && role != nullptr) {
    PROBE("sim.sigterm");
    node->environment().loop.Post([role] { role->Drain(); });
  }
  AfterMs(chance_.Between(1, 2 * plan_.drain_every_ms), "sim.drain", [this] { DrainSomebody(); });
}

void SimCluster::StartSecond() {
  PROBE("sim.second_coordinator");
  second_lives_ = true;
  second_place_ = AddCoordinator(2);
}

// Flips a bit or cuts off the end of the newest checkpoint, if there are several, and if the job
// keeps several: otherwise the one before may be about to be removed.
void SimCluster::DamageNewest() {
  const std::vector<std::string> names = oracle_.Checkpoints();
  if (names.size() < 2 || plan_.job.checkpoint.keep < 2 || oracle_.Complete()) return;
  const std::string path =
      absl::StrCat(PsFilesDirectory(absl::StrCat(SimDir(world_), "/checkpoints/", names[0])), "/",
                   PsFileName(0, plan_.ps));
  const absl::StatusOr<std::string> contents = world_.storage().Contents(path);
  if (!contents.ok() || contents->empty()) return;
  PROBE("sim.damaged_checkpoint");
  oracle_.Damaged(names[0]);
  const auto offset =
      static_cast<uint64_t>(chance_.Between(0, static_cast<int64_t>(contents->size()) - 1));
  if (chance_.Chance(0.3)) {
    (void)world_.storage().Truncate(path, offset);
  } else {
    (void)world_.storage().FlipBit(path, offset, static_cast<int>(chance_.Between(0, 7)));
  }
}

void SimCluster::Heal() {
  healed_ = true;
  nemesis_.Heal();
  // Workers that wait for the second coordinator start again with the right address.
  for (const uint32_t place : worker_places_) {
    if (second_place_ != 0 && supervisor_.node(place) != nullptr) {
      world_.Kill(*supervisor_.node(place), Death::kKill);
    }
  }
}

bool SimCluster::Over() const {
  if (!job_over_) return false;
  const auto left = [this](uint32_t place) { return supervisor_.exited(place); };
  if (!std::all_of(ps_places_.begin(), ps_places_.end(), left)) return false;
  return !plan_.wait_for_workers || std::all_of(worker_places_.begin(), worker_places_.end(), left);
}

std::string SimCluster::Missing() const {
  std::string text = job_over_ ? "the job is over, but not " : "the job is not done; alive: ";
  for (uint32_t place = 0; place < supervisor_.places(); ++place) {
    if (!supervisor_.exited(place)) absl::StrAppend(&text, supervisor_.name(place), " ");
  }
  return text;
}

// Goes on in the same DIR with one epoch more and another number of ps; all processes are started
// anew.
void SimCluster::GoOn() {
  PROBE("sim.resumed");
  supervisor_.StopAll();
  job_over_ = false;
  oracle_.GoOn(++plan_.epochs);
  plan_.job.epochs = plan_.epochs;
  plan_.ps = plan_.resume_ps;
  ps_places_.clear();
  worker_places_.clear();
  coordinator_place_ = AddCoordinator(1);
  for (uint32_t i = 0; i < plan_.ps; ++i) ps_places_.push_back(AddPs(i));
  for (uint32_t i = 0; i < plan_.workers; ++i) worker_places_.push_back(AddWorker());
}

bool SimCluster::RunUntilOver(int64_t end_ms) {
  const SimWorld::End end = world_.Run(end_ms, [this] { return Over(); });
  if (end != SimWorld::End::kDone && end != SimWorld::End::kViolation) {
    world_.Violation("no end after everything was healed: " + Missing());
  }
  if (world_.violation().empty()) oracle_.CheckEnd();
  return world_.violation().empty();
}

bool SimCluster::Run() {
  constexpr int64_t kHealedMs = 300'000;
  StartFaults();
  world_.Run(plan_.fault_ms, [this] { return Over(); });
  Heal();
  if (!RunUntilOver(plan_.fault_ms + kHealedMs)) return false;
  if (plan_.resume_ps == 0) return true;
  GoOn();
  return RunUntilOver(plan_.fault_ms + 2 * kHealedMs);
}

std::string RunSeed(uint64_t seed, uint64_t* trace_hash, uint64_t* steps, SimKind kind) {
  SimWorld world(seed);
  world.storage().objects().used = kind.objects;
  ClusterPlan plan = ClusterPlan::Draw(world.Fork(8));
  plan.DrawWire(world.Fork(9));
  if (kind.tables) plan.MakeTables();
  if (kind.growing) plan.MakeGrowing(world.Fork(10));
  if (kind.tables || kind.growing) plan.DrawDeltas(world.Fork(11));
  if (kind.lanes) plan.DrawLanes(world.Fork(12));
  if (kind.sync) plan.DrawSync(world.Fork(13));
  if (kind.sync) plan.DrawDevices(world.Fork(14));
  SimCluster cluster(world, plan);
  const Coverage coverage;
  bool right = cluster.Run();
  if (right && coverage.Missing("coordinator.rollback.stuck").empty()) {
    world.Violation("a state that was still needed was lost");
    right = false;
  }
  if (trace_hash != nullptr) *trace_hash = world.trace().hash();
  if (steps != nullptr) *steps += world.steps();
  if (right) return "";
  return absl::StrCat(kind.sync    ? "PARACORD_SIM_LANES=2 "
                      : kind.lanes ? "PARACORD_SIM_LANES=1 "
                                   : "",
                      kind.growing  ? "PARACORD_SIM_TABLES=2 "
                      : kind.tables ? "PARACORD_SIM_TABLES=1 "
                                    : "",
                      kind.objects ? "PARACORD_SIM_OBJECTS=1 " : "", "PARACORD_SIM_SEED=", seed,
                      " bin/sim_test \"one seed of the cluster\"\n", plan.ToString(), "\n",
                      world.Report());
}

}  // namespace paracord
