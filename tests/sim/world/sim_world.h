// A simulated world in one thread: virtual time, an event queue, processes, a network, disks, and
// one seed from which all randomness comes. Equal seeds give equal traces. Owned by a test. Roles
// reach the world only through the Environment of their SimNode.
//
// A death takes place between events, never inside a role's call stack. A role that dies in the
// middle of an event runs on without any effect. Roles must be destroyed before the world
// (Supervisor does so).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world/sim_network.h"
#include "sim/world/sim_node.h"
#include "sim/world/sim_random.h"
#include "sim/world/sim_storage.h"
#include "sim/world/swarm.h"
#include "sim/world/trace.h"

namespace paracord {

class SimWorld {
 public:
  using EventId = uint64_t;  // never 0
  enum class End { kDone, kQuiet, kTimeLimit, kStepLimit, kViolation };

  explicit SimWorld(uint64_t seed, std::optional<Swarm> swarm = std::nullopt);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // Runs until `done` returns true (called after every event; may be null), no event is left,
  // virtual time has passed `until_ms`, or a check reports a violation.
  End Run(int64_t until_ms, const std::function<bool()>& done = nullptr);
  // Adds a check that runs after every event and reports faults with Violation.
  void AfterEveryEvent(std::function<void()> check) { checks_.push_back(std::move(check)); }
  void Violation(std::string_view what);  // ends the run; only the first violation is kept
  const std::string& violation() const { return violation_; }
  // Returns the seed, the swarm, the violation and the last events, to print when a test fails.
  std::string Report() const;

  uint64_t seed() const { return seed_; }
  int64_t now_us() const { return now_us_; }
  uint64_t steps() const { return steps_; }
  void set_step_limit(uint64_t limit) { step_limit_ = limit; }
  Swarm& swarm() { return swarm_; }
  SimRandom Fork(uint64_t name) { return SimRandom(seed_ * 0x9E3779B97F4A7C15u).Fork(name); }
  Trace& trace() { return trace_; }
  SimNetwork& network() { return network_; }
  SimStorage& storage() { return storage_; }
  const char* Intern(std::string_view text);

  // Starts a process on machine `host`. A machine has a wall clock, can crash and can be cut off.
  SimNode& Start(const std::string& name, uint32_t host);
  const std::vector<std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  // Kills a process now, or after the running event.
  void Kill(SimNode& node, Death death);
  // Kills every process on the machines `hosts`. Unsynced data is lost.
  void CrashMachines(const std::vector<uint32_t>& hosts);
  void Pause(SimNode& node);
  void Resume(SimNode& node);
  int64_t wall_offset_ms(uint32_t host) const;
  void JumpWallClock(uint32_t host, int64_t by_ms);

  // Adds an event of `node`, or of the harness if `node` is null. Events of equal time run in the
  // order of addition. Events of a paused node wait for Resume; events of a dead node are dropped.
  EventId At(int64_t time_us, SimNode* node, EventKind kind, const char* label, uint64_t detail,
             std::function<void()> fn);
  EventId After(int64_t delay_us, SimNode* node, EventKind kind, const char* label, uint64_t detail,
                std::function<void()> fn) {
    return At(now_us_ + delay_us, node, kind, label, detail, std::move(fn));
  }
  void CancelEvent(EventId id);
  // Called inside an event of the harness: runs `fn` now as an event of `node`, or after Resume if
  // the node is paused.
  void RunOn(SimNode& node, EventKind kind, const char* label, uint64_t detail,
             std::function<void()> fn);

 private:
  struct Event {
    EventId id = 0;  // 0: free
    SimNode* node = nullptr;
    EventKind kind = EventKind::kWorld;
    const char* label = "";
    uint64_t detail = 0;
    std::function<void()> fn;  // empty: cancelled
  };
  struct Due {
    int64_t time_us;
    uint64_t order;
    uint32_t slot;
    bool operator<(const Due& other) const {  // std::push_heap wants the largest first
      return time_us != other.time_us ? time_us > other.time_us : order > other.order;
    }
  };

  bool Step();
  void Push(int64_t time_us, uint32_t slot);
  Event TakeEvent(uint32_t slot);
  void RunEvent(SimNode* node, EventKind kind, const char* label, uint64_t detail,
                std::function<void()> fn);
  void Settle();
  void Die(SimNode& node, Death death);
  void DropEvents(SimNode& node);

  const uint64_t seed_;
  Swarm swarm_;
  uint64_t step_limit_ = 5'000'000;
  int64_t now_us_ = 0;
  uint64_t steps_ = 0;
  uint64_t made_ = 0;   // number of events added
  uint64_t order_ = 0;  // number of queue entries added
  std::vector<Event> events_;
  std::vector<uint32_t> free_;
  std::vector<Due> queue_;
  int depth_ = 0;  // nesting of running events
  std::vector<std::pair<SimNode*, Death>> to_kill_;
  std::vector<uint32_t> to_lose_power_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<int64_t> wall_offsets_ms_;
  std::vector<std::function<void()>> checks_;
  std::string violation_;
  std::set<std::string, std::less<>> interned_;
  Trace trace_;
  SimStorage storage_;
  SimNetwork network_;
};

}  // namespace paracord
