// Ps and workers of a synchronous job whose partitions have further holders (PartitionSpec.copies),
// in one thread, without a coordinator: the test leases lanes, takes ps and workers away, and
// begins generations. Messages are dropped, sent twice, and late, as a seed says. What ps hold is
// compared with SyncReference, which is computed without a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/parameter_server.h"
#include "sim/sync_reference.h"
#include "sim/world/sim_random.h"
#include "sim/world/sim_world.h"
#include "tests/fakes.h"
#include "worker/trainer.h"

namespace paracord {

struct HotPlan {
  uint32_t ps = 2;
  uint32_t workers = 2;
  uint32_t lanes = 3;
  CountingOptions counting = {};
  Job job = {};
  uint64_t staged_push_bytes = uint64_t{1} << 20;
  bool faults = false;  // of messages

  // Draws the model, the optimizer and how gradients travel.
  static HotPlan Draw(SimRandom random);
  std::string ToString() const;
};

// What travelled between workers and one ps.
struct HotTraffic {
  uint64_t exchanges = 0;
  uint64_t pushed_bytes = 0;  // of gradients and ids
  uint64_t pulled_bytes = 0;  // of values
};

class HotCluster {
 public:
  HotCluster(uint64_t seed, HotPlan plan);
  ~HotCluster();

  // Runs for so long, or until all batches are entered in all holders. Returns whether they are.
  bool Run(int64_t ms);
  bool Done() const;
  uint64_t rounds() const;  // of the job

  // The ps dies, with all that it holds.
  void KillPs(uint32_t ps);
  // The worker dies, and another one takes its place. What it has sent may still arrive.
  void RestartWorker(uint32_t worker);
  // A new generation begins without the ps that are dead: the holders are those that serve the
  // greatest state that some holder of every partition serves, and nothing is loaded. Returns "",
  // or which partition has no holder.
  std::string Promote();
  // From now on nothing comes to this ps, or comes again. What was sent meanwhile arrives then.
  void Stall(uint32_t ps, bool stalls);
  // From now on this happens whenever a ps has been given so many exchanges more.
  void AfterExchanges(uint64_t count, std::function<void()> then);

  // The states of the trained partitions of a ps, ascending.
  std::vector<uint64_t> StatesOf(uint32_t ps) const;
  // The states of all ps and the last reports, for people.
  std::string ToString() const;
  // Compares what every holder has with the state after all rounds. Returns "" or the difference.
  std::string Difference();
  const std::vector<HotTraffic>& traffic() const { return traffic_; }
  const std::vector<std::string>& reports() const { return reports_; }
  const Session& session() const { return session_; }

 private:
  class Call;
  class PsLink;
  struct HotWorker;
  using BytesFn = std::function<void(absl::StatusOr<absl::Cord>)>;

  void StartPs(uint32_t ps);
  void MakeSession();
  void StartWorker(uint32_t worker);
  // The least state of all holders, from which lanes are leased.
  uint64_t LeastState() const;
  void Grant(uint32_t worker, uint64_t lane, uint32_t first);
  void GrantLater(uint64_t lane);
  void GrantAll();
  void Reported(const LeaseReport& report);
  // Brings the bytes of a call to a ps, after the delays and losses that are drawn.
  void Send(uint32_t ps, std::string_view method, const std::string& request, int64_t deadline_ms,
            const std::shared_ptr<BytesFn>& done);
  void Arrive(uint32_t ps, std::string_view method, const std::string& request,
              const std::shared_ptr<BytesFn>& done, bool answers);
  template <class Reply, class Request>
  Reply Order(uint32_t ps, std::string_view method, const Request& request);
  static bool IsHolder(uint32_t ps, const PartitionSpec& spec);
  bool InLayout(uint32_t ps) const;
  const Partition* Held(uint32_t ps, uint32_t partition) const;

  const HotPlan plan_;
  SimRandom random_;
  SimWorld world_;
  ManualLoop loop_;
  ManualExecutor executor_{loop_};
  NoNetwork network_;
  TestDirectory directory_;
  PosixFiles files_;
  DataPlan data_;
  SyncReference reference_;
  Session session_;
  std::vector<std::unique_ptr<ParameterServer>> ps_;  // null: dead
  std::vector<std::vector<std::function<void()>>> stalled_;
  std::vector<bool> stalls_;
  std::vector<HotTraffic> traffic_;
  uint64_t left_ = 0;  // exchanges, until then_
  std::function<void()> then_;
  std::vector<std::string> reports_;
  std::vector<uint64_t> leased_;  // lanes, by the lease's id less 1
  std::vector<std::unique_ptr<HotWorker>> workers_;
};

}  // namespace paracord
