#include "sim/world/sim_node.h"

#include <algorithm>
#include <utility>

#include "common/probe.h"
#include "objects/object_files.h"
#include "sim/world/sim_files.h"
#include "sim/world/sim_objects.h"
#include "sim/world/sim_world.h"

namespace paracord {

class SimNode::Loop : public EventLoop {
 public:
  explicit Loop(SimNode& node) : node_(node), offset_ms_(node.chance_.Between(0, 1'000'000'000)) {}

  int64_t NowMs() const override { return node_.world_.now_us() / 1000 + offset_ms_; }
  int64_t UnixMs() const override {
    return node_.world_.now_us() / 1000 + node_.world_.wall_offset_ms(node_.host_);
  }

  void Post(std::function<void()> fn) override {
    if (!node_.live()) return;
    node_.world_.After(0, &node_, EventKind::kPost, "", 0, std::move(fn));
  }

  TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) override {
    if (!node_.live()) return 1;  // no event has an id as small as 1
    const int64_t late_us = node_.chance_.Between(0, 999);
    return node_.world_.After(std::max<int64_t>(delay_ms, 0) * 1000 + late_us, &node_,
                              EventKind::kTimer, "", static_cast<uint64_t>(delay_ms),
                              std::move(fn));
  }

  void Cancel(TimerId id) override { node_.world_.CancelEvent(id); }

 private:
  SimNode& node_;
  const int64_t offset_ms_;
};

class SimNode::SimExecutor : public Executor {
 public:
  explicit SimExecutor(SimNode& node) : node_(node) {}

  void Run(std::function<void()> work, std::function<void()> done) override {
    if (!node_.live()) return;
    SimWorld& world = node_.world_;
    const Swarm& swarm = world.swarm();
    int64_t takes_us = node_.chance_.Between(swarm.work_us_min, swarm.work_us_max);
    if (node_.chance_.Chance(swarm.slow_work)) {
      PROBE("sim.slow_work");
      takes_us = node_.chance_.Between(100'000, 3'000'000);
    }
    busy_until_us_ = std::max(busy_until_us_, world.now_us()) + takes_us;
    world.At(busy_until_us_, &node_, EventKind::kWork, "", 0,
             [this, work = std::move(work), done = std::move(done)] {
               work();
               if (!node_.live()) return;
               node_.world_.After(0, &node_, EventKind::kWorkDone, "", 0, done);
             });
  }

 private:
  SimNode& node_;
  int64_t busy_until_us_ = 0;
};

class SimNode::NetworkView : public Network {
 public:
  explicit NetworkView(SimNode& node) : node_(node) {}

  std::unique_ptr<Link> Dial(const std::string& address) override {
    return node_.world_.network().Dial(node_, address);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Service& service) override {
    return node_.world_.network().Listen(node_, address, service);
  }

 private:
  SimNode& node_;
};

namespace {

// With an object store, each request gets three attempts, and most files go in several parts.
std::unique_ptr<Files> MakeFiles(SimNode& node, SimObjectStore& store) {
  constexpr size_t kPartBytes = 300;
  if (!node.world().storage().objects().used) return std::make_unique<SimFiles>(node);
  return std::make_unique<ObjectFiles>(
      store, [](int tries, const absl::Status&) { return tries < 3; }, kPartBytes);
}

}  // namespace

SimNode::SimNode(SimWorld& world, uint32_t id, uint32_t host, std::string name)
    : world_(world),
      id_(id),
      host_(host),
      name_(std::move(name)),
      random_(world.Fork(1000 + 2 * uint64_t{id})),
      chance_(world.Fork(1001 + 2 * uint64_t{id})),
      loop_(std::make_unique<Loop>(*this)),
      executor_(std::make_unique<SimExecutor>(*this)),
      network_(std::make_unique<NetworkView>(*this)),
      store_(std::make_unique<SimObjectStore>(*this)),
      files_(MakeFiles(*this, *store_)) {}

SimNode::~SimNode() = default;

Environment SimNode::environment() {
  return Environment{*loop_, *network_, *files_, *executor_, random_};
}

SimNode::Go SimNode::Operation() {
  if (!live()) return Go::kDead;
  if (++operations_ != die_at_operation_) return Go::kGo;
  PROBE("sim.die_in_operation");
  Perish();
  return Go::kDyingHere;
}

void SimNode::EventRan() {
  if (++events_ != die_at_event_ || !live()) return;
  PROBE("sim.die_at_event");
  Perish();
}

void SimNode::Perish() {
  if (death_ == Death::kMachine) {
    world_.CrashMachines({host_});
  } else {
    world_.Kill(*this, death_);
  }
}

}  // namespace paracord
