#include "sim/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/coordinator.h"
#include "net/rpc_proto.h"
#include "node/node.h"
#include "proto/protocol.h"
#include "server/parameter_server.h"
#include "sim/inventor.h"
#include "worker/worker.h"

namespace paracord {
namespace {

constexpr uint32_t kPsOfMoves = 4;  // there are so many where the job moves

std::string PsAddress(uint32_t index) { return absl::StrCat("ps:", index); }
std::string CoordinatorAddress(uint32_t number) { return absl::StrCat("coordinator:", number); }

// A simulated daemon that listens at an address. Drain() stands for SIGTERM.
class SimRole : public SimProcess {
 public:
  virtual void Drain() = 0;

 protected:
  static std::function<void(int, std::string)> ExitFn(Supervisor& supervisor, SimNode& node) {
    return [&supervisor, &node](int code, const std::string&) { supervisor.Exit(node, code); };
  }
};

}  // namespace

class SimCluster::Ps : public SimRole {
 public:
  Ps(SimCluster& cluster, SimNode& node, uint32_t index)
      : ps_(OptionsOfPs(cluster, index), node.environment(), ExitFn(cluster.supervisor_, node)),
        watched_(cluster.Oracles(), ps_) {
    auto listener = node.environment().network.Listen(PsAddress(index), watched_);
    if (!listener.ok()) {
      cluster.supervisor_.Exit(node, static_cast<int>(ExitCode::kInUse));
      return;
    }
    listener_ = *std::move(listener);
  }
  void Drain() override { ps_.Drain(); }

  static PsOptions OptionsOfPs(SimCluster& cluster, uint32_t index) {
    return {.index = index,
            .dir = SimDir(cluster.world_),
            .orphan_ms = cluster.plan_.job.timeouts.orphan_ms,
            .staged_bytes_max = 1500};
  }

 private:
  ParameterServer ps_;
  WatchedPs watched_;
  std::unique_ptr<Listener> listener_;
};

// Forwards calls to a coordinator, and exaggerates the progress in some workers' reports.
class SimCluster::Liar : public Service {
 public:
  Liar(SimCluster& cluster, Service& coordinator) : cluster_(cluster), coordinator_(coordinator) {}
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    if (method == method::kWork && cluster_.LieNow()) request = Ahead(request);
    coordinator_.Handle(method, std::move(request), std::move(call));
  }

 private:
  // Adds a batch to the progress in a report. The coordinator may treat progress only as a hint.
  static absl::Cord Ahead(const absl::Cord& bytes) {
    absl::StatusOr<WorkRequest> request = ParseMessage<WorkRequest>(bytes);
    if (!request.ok()) return bytes;
    for (LeaseReport& report : *request->mutable_leases()) {
      if (report.problem() != PROBLEM_NONE) continue;  // the report names the batch that failed
      PROBE("sim.report_ahead");
      report.set_next(report.next() + 1);
      report.set_ended(true);
    }
    return absl::Cord(request->SerializeAsString());
  }

  SimCluster& cluster_;
  Service& coordinator_;
};

class SimCluster::Chief : public SimRole {
 public:
  // A call whose answer nobody waits for.
  class Unheard : public ServerCall {
   public:
    void Reply(absl::StatusOr<Parts>) override {}
    void OnCancel(std::function<void()>) override {}
  };

  Chief(SimCluster& cluster, SimNode& node, uint32_t number)
      : coordinator_(Options(cluster), node.environment(), ExitFn(cluster.supervisor_, node)),
        liar_(cluster, coordinator_) {
    auto listener = node.environment().network.Listen(CoordinatorAddress(number), liar_);
    if (!listener.ok()) {
      cluster.supervisor_.Exit(node, static_cast<int>(ExitCode::kInUse));
      return;
    }
    listener_ = *std::move(listener);
    node.environment().loop.Post([this] { coordinator_.Start(/*address=*/""); });
  }
  void Drain() override { coordinator_.Drain("SIGTERM"); }
  // Somebody asks for this many ps. Those that the job does not have yet are where they are.
  void Scale(uint32_t ps) {
    if (coordinator_.core() == nullptr) return;
    ScaleRequest request;
    request.set_ps(ps);
    for (uint32_t i = coordinator_.core()->View().ps.size(); i < ps; ++i) {
      request.add_addresses(PsAddress(i));
    }
    coordinator_.Handle(method::kScale, absl::Cord(request.SerializeAsString()),
                        std::make_shared<Unheard>());
  }

  static CoordinatorOptions Options(SimCluster& cluster) {
    CoordinatorOptions options;
    options.job = cluster.plan_.job;
    // Every second restart of the coordinator changes the job under daemons that live on.
    options.job.timeouts.drain_ms += ++cluster.coordinators_ / 2 % 2;
    options.dir = SimDir(cluster.world_);
    for (uint32_t i = 0; i < cluster.plan_.ps; ++i) options.ps_addresses.push_back(PsAddress(i));
    options.nodes = cluster.plan_.nodes;
    if (options.nodes) {
      for (uint32_t i = 0; i < cluster.plan_.ps; ++i) {
        options.workers.push_back(absl::StrCat("worker:", i));
      }
      return options;
    }
    // Places are numbered in the order coordinator, ps, workers.
    for (uint32_t i = 0; i < cluster.plan_.workers; ++i) {
      options.workers.push_back(absl::StrCat("worker:", 1 + cluster.plan_.ps + i));
    }
    return options;
  }

 private:
  Coordinator coordinator_;
  Liar liar_;
  std::unique_ptr<Listener> listener_;
};

class SimCluster::Trainer : public SimRole {
 public:
  Trainer(SimCluster& cluster, SimNode& node, std::string task, std::string coordinator,
          uint32_t devices)
      : worker_(Options(cluster, std::move(task), std::move(coordinator)), Opener(cluster, devices),
                node.environment(), ExitFn(cluster.supervisor_, node)) {
    node.environment().loop.Post([this] { worker_.Start(); });
  }
  void Drain() override { worker_.Drain("SIGTERM"); }

  static WorkerOptions Options(SimCluster& cluster, std::string task, std::string coordinator) {
    return {.task = std::move(task),
            .coordinator = std::move(coordinator),
            .device = "cpu",
            .dir = SimDir(cluster.world_),
            .orphan_ms = cluster.plan_.job.timeouts.orphan_ms,
            .staged_push_bytes = cluster.plan_.staged_push ? 1 : kStagedPushBytes};
  }
  static OpenWorkloadFn Opener(SimCluster& cluster, uint32_t devices) {
    return [&counting = cluster.plan_.counting, devices](const Job&) -> absl::StatusOr<Workload> {
      return MakeCountingWorkload(counting, devices);
    };
  }

 private:
  Worker worker_;
};

// A node: a worker and a ps in one process. Node 0 holds the coordinator, too.
class SimCluster::Both : public SimRole {
 public:
  Both(SimCluster& cluster, SimNode& node, uint32_t index)
      : calls_(node.environment().loop),
        node_(Options(cluster, index), Trainer::Opener(cluster, cluster.DevicesOf(index)),
              node.environment(),
              {node.environment().executor, node.environment().executor, calls_, calls_,
               node.environment().executor},
              ExitFn(cluster.supervisor_, node)) {
    watched_ = std::make_unique<WatchedPs>(cluster.Oracles(), node_.ps());
    node_.CallThrough(Role::kPs, *watched_);
    if (index == 0) {
      liar_ = std::make_unique<Liar>(cluster, *node_.coordinator());
      node_.CallThrough(Role::kCoordinator, *liar_);
    }
    auto listener = node.environment().network.Listen(PsAddress(index), node_);
    if (!listener.ok()) {
      cluster.supervisor_.Exit(node, static_cast<int>(ExitCode::kInUse));
      return;
    }
    listener_ = *std::move(listener);
    node.environment().loop.Post([this] { node_.Start(/*address=*/""); });
  }
  void Drain() override { node_.Drain("SIGTERM"); }

 private:
  static NodeOptions Options(SimCluster& cluster, uint32_t index) {
    NodeOptions options;
    options.address = PsAddress(index);
    options.worker = Trainer::Options(cluster, absl::StrCat("worker:", index), PsAddress(0));
    options.ps = Ps::OptionsOfPs(cluster, index);
    if (index == 0) options.coordinator = Chief::Options(cluster);
    return options;
  }

  // Delays calls within the process by a millisecond of virtual time. Without the delay, a worker
  // could poll its own ps and coordinator for ever at one instant, and no other event would run.
  class OwnCalls : public Executor {
   public:
    explicit OwnCalls(EventLoop& loop) : loop_(loop) {}
    void Run(std::function<void()> work, std::function<void()> done) override {
      loop_.PostAfter(1, [work = std::move(work), done = std::move(done)] {
        work();
        done();
      });
    }

   private:
    EventLoop& loop_;
  };

  OwnCalls calls_;
  Node node_;
  std::unique_ptr<WatchedPs> watched_;
  std::unique_ptr<Liar> liar_;
  std::unique_ptr<Listener> listener_;
};

class SimCluster::Fraud : public SimRole {
 public:
  Fraud(SimCluster& cluster, SimNode& node)
      : inventor_(cluster.plan_.nodes ? PsAddress(0) : CoordinatorAddress(1),
                  MakeCountingWorkload(cluster.plan_.counting).facts, cluster.oracle_.plan(),
                  cluster.plan_.epochs, node.environment(), cluster.world_.Fork(16),
                  [exit = ExitFn(cluster.supervisor_, node)](int code) { exit(code, ""); }) {
    node.environment().loop.Post([this] { inventor_.Start(); });
  }
  void Drain() override {}

 private:
  Inventor inventor_;
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
  // Work takes long compared with the time between faults. Otherwise the job ends before the first
  // fault.
  world_.swarm().work_us_max = chance_.Between(20'000, 300'000);
  SimNode& setup = world_.Start("setup", 63);
  Files& files = setup.environment().files;
  (void)files.MakeDirectories(SimDir(world_));
  (void)files.SyncDirectory("/");
  world_.Kill(setup, Death::kExit);
  supervisor_.RestartAfterExit(
      [this](uint32_t place, int exit_code) { return MayRestart(place, exit_code); });
  AddAll();
  world_.AfterEveryEvent([this] { oracle_.LookAtDisk(); });
}

SimCluster::~SimCluster() = default;

void SimCluster::AddAll() {
  if (!plan_.nodes) coordinator_place_ = AddCoordinator(1);
  for (uint32_t i = 0; i < plan_.ps; ++i) {
    ps_places_.push_back(plan_.nodes ? AddNode(i) : AddPs(i));
  }
  if (plan_.nodes) coordinator_place_ = ps_places_.front();
  for (uint32_t i = 0; i < plan_.workers; ++i) worker_places_.push_back(AddWorker());
  // Behind the workers, whose tasks are named by their places.
  for (uint32_t i = plan_.ps; plan_.move_every_ms > 0 && i < kPsOfMoves; ++i) {
    ps_places_.push_back(AddPs(i));
  }
  if (!plan_.inventor) return;
  supervisor_.AddPlace("inventor",
                       [this](SimNode& node) { return std::make_unique<Fraud>(*this, node); });
}

WatchedPs::Oracles SimCluster::Oracles() { return {world_, oracle_, rounds_, sync_.get()}; }

uint32_t SimCluster::AddNode(uint32_t index) {
  return supervisor_.AddPlace(absl::StrCat("node:", index), [this, index](SimNode& node) {
    return std::make_unique<Both>(*this, node, index);
  });
}

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
    // A restarted worker sometimes takes another task index, and sometimes dials the second
    // coordinator.
    const auto alias = static_cast<uint32_t>(chance_.Chance(0.2) ? chance_.Between(1, 2) : 0);
    const bool other = second_lives_ && !healed_ && chance_.Chance(0.5);
    return std::make_unique<Trainer>(*this, node, absl::StrCat("worker:", index + 64 * alias),
                                     plan_.nodes ? PsAddress(0) : CoordinatorAddress(other ? 2 : 1),
                                     DevicesOf(index));
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
    // Other processes exit with 0 only if the final checkpoint exists, which CheckEnd verifies.
    return false;
  }
  if (exit_code < 128 && exit_code != static_cast<int>(ExitCode::kInUse)) {
    world_.Violation(absl::StrCat(name, " exits with ", exit_code));
  }
  if (coordinator) return place == coordinator_place_ ? !job_over_ : !healed_;
  const bool computes = plan_.nodes || std::find(worker_places_.begin(), worker_places_.end(),
                                                 place) != worker_places_.end();
  return !(computes && job_over_);
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
  if (plan_.move_every_ms > 0) {
    AfterMs(chance_.Between(1, 2 * plan_.move_every_ms), "sim.move", [this] { MoveSomewhere(); });
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
  auto* const role = static_cast<SimRole*>(supervisor_.process(place));
  if (node != nullptr && role != nullptr) {
    PROBE("sim.sigterm");
    node->environment().loop.Post([role] { role->Drain(); });
  }
  AfterMs(chance_.Between(1, 2 * plan_.drain_every_ms), "sim.drain", [this] { DrainSomebody(); });
}

void SimCluster::MoveSomewhere() {
  SimNode* const node = supervisor_.node(coordinator_place_);
  auto* const chief = static_cast<Chief*>(supervisor_.process(coordinator_place_));
  const auto ps = static_cast<uint32_t>(chance_.Between(1, kPsOfMoves));
  if (node != nullptr && chief != nullptr) {
    PROBE("sim.move");
    node->environment().loop.Post([chief, ps] { chief->Scale(ps); });
  }
  AfterMs(chance_.Between(1, 2 * plan_.move_every_ms), "sim.move", [this] { MoveSomewhere(); });
}

void SimCluster::StartSecond() {
  PROBE("sim.second_coordinator");
  second_lives_ = true;
  second_place_ = AddCoordinator(2);
}

// Flips a bit in the newest checkpoint, or cuts off its end. Does nothing unless several
// checkpoints exist and the job keeps several, because retention might be about to remove the
// intact one.
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
  // Workers that wait for the second coordinator restart with the address of the first.
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

// Resumes the job in its DIR for one more epoch, with another number of ps and with new processes.
void SimCluster::GoOn() {
  PROBE("sim.resumed");
  supervisor_.StopAll();
  job_over_ = false;
  oracle_.GoOn(++plan_.epochs);
  plan_.job.epochs = plan_.epochs;
  plan_.ps = plan_.resume_ps;
  ps_places_.clear();
  worker_places_.clear();
  AddAll();
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

}  // namespace paracord
