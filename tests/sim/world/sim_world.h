// A world in one thread: virtual time, a queue of events, processes, a network, disks, and one seed
// from which all chance comes. The same seed gives the same trace. Owned by a test; roles live in
// it through the Environment of their SimNode and cannot tell the difference.
//
// Deaths happen between events, never inside a role's call stack: a role that is to die in the
// middle of an event goes on running into the void, as nothing it does has any effect any more.
// Roles must be destroyed before the world (Supervisor does it).
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

  // Runs until `done` (asked after every event; may be null), until nothing is left to do, until
  // virtual time has passed `until_ms`, or until something is found wrong.
  End Run(int64_t until_ms, const std::function<bool()>& done = nullptr);
  // Sets a check that is called after every event. It calls Violation to report a fault.
  void AfterEveryEvent(std::function<void()> check) { checks_.push_back(std::move(check)); }
  void Violation(std::string_view what);  // ends the run; the first one is kept
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

  // Starts a process. `host` is its machine, which may be cut off, crash, and has a wall clock.
  SimNode& Start(const std::string& name, uint32_t host);
  const std::vector<std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  // Kills a process at once, or after the event that is running now.
  void Kill(SimNode& node, Death death);
  // Kills every process of these machines and loses what they had not synced.
  void CrashMachines(const std::vector<uint32_t>& hosts);
  void Pause(SimNode& node);
  void Resume(SimNode& node);
  int64_t wall_offset_ms(uint32_t host) const;
  void JumpWallClock(uint32_t host, int64_t by_ms);

  // Adds an event of `node`, or of the harness itself if that is null. Events of one time run in
  // the order in which they were added; those of a paused node wait for it, and those of a dead one
  // vanish.
  EventId At(int64_t time_us, SimNode* node, EventKind kind, const char* label, uint64_t detail,
             std::function<void()> fn);
  EventId After(int64_t delay_us, SimNode* node, EventKind kind, const char* label, uint64_t detail,
                std::function<void()> fn) {
    return At(now_us_ + delay_us, node, kind, label, detail, std::move(fn));
  }
  void CancelEvent(EventId id);
  // Called inside an event of the harness: runs `fn` at once as an event of `node`, or later if the
  // node is paused.
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
  uint64_t made_ = 0;   // events
  uint64_t order_ = 0;  // entries of the queue
  std::vector<Event> events_;
  std::vector<uint32_t> free_;
  std::vector<Due> queue_;
  int depth_ = 0;  // of running events
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
