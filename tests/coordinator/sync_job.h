// A synchronous job with two lanes and two ps, for tests of the coordinator's core: 8 batches in 4
// rounds an epoch, two epochs.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/json_text.h"
#include "config/data_plan.h"
#include "coordinator/core_harness.h"

namespace paracord {

inline constexpr uint64_t kSyncRecords = 80;
inline constexpr uint64_t kSyncRounds = 4;  // per epoch

class SyncJob : public CoreHarness {
 public:
  explicit SyncJob(std::function<void(Job&)> edit = {}, FoundInDir found = {},
                   const SyncJob* earlier = nullptr)
      : CoreHarness(
            [&](Job& said) {
              said.split_batches.reset();
              said.guarantees.consistency = "sync";
              said.guarantees.recovery = "rollback";
              said.guarantees.round_batches = 2;
              said.failures = {true, 1, 1.0, 1};
              said.checkpoint.keep = 10;
              if (edit) edit(said);
            },
            std::move(found), earlier, /*away=*/{0, 1}) {
    if (earlier != nullptr) cuts = earlier->cuts;
    loaded = [this](uint32_t at, const std::string& checkpoint) {
      SetState(at, cuts.contains(checkpoint) ? cuts.at(checkpoint) : 0);
    };
    dead.clear();
    Run(500);
  }

  // Sets the rounds that the partitions of a ps have applied.
  void SetState(uint32_t at, uint64_t state, bool serves_before = false) {
    Push(Reach(at, state, kSyncRounds));
    for (PartitionDescription& partition : *ps[at].mutable_partitions()) {
      partition.set_serves_before(serves_before);
    }
  }
  void SetStates(uint64_t state) {
    for (uint32_t i = 0; i < 2; ++i) SetState(i, state);
  }
  uint64_t Join(const std::string& task) { return CoreHarness::Join(task, kSyncRecords, tests); }
  // Takes a checkpoint of all ps at `state`. Returns its name. The coordinator orders a state
  // slightly ahead, to which the ps go for the moment.
  std::string TakeCut(uint64_t session, uint64_t state) {
    SetStates(state);
    const size_t before = committed.size();
    LeaseReport progress;  // a batch was computed since the last cut
    Work(session, {progress}, false);
    for (int i = 0; i < 200 && committed.size() == before; ++i) {
      Run(100);
      for (uint32_t at = 0; at < 2; ++at) {
        if (armed.contains(at)) {
          SetState(at, std::get<SnapshotRequest>(armed.at(at).request).cut());
        }
      }
    }
    REQUIRE(committed.size() == before + 1);
    SetStates(state);
    const std::string name = committed.back().name.ToString();
    cuts[name] = state;
    return name;
  }
  // Kills a ps and restarts it empty.
  void Kill(uint32_t at) {
    ps[at].set_boot_id("boot-" + std::to_string(at) + "-" + std::to_string(++lives_));
    ps[at].clear_run_id();
    ps[at].clear_partitions();
    Feed(PsAnswerEvent{at, hold_tags[at], absl::UnavailableError("killed")});
    Run(500);
  }
  // Returns the checkpoints of the newest two loads.
  std::vector<std::string> NewestLoads() const {
    std::vector<std::string> from;
    for (size_t i = loads.size() - std::min<size_t>(2, loads.size()); i < loads.size(); ++i) {
      from.push_back(loads[i].checkpoint());
    }
    return from;
  }
  bool Logged(const std::string& text) const { return log.find(text) != std::string::npos; }
  nlohmann::json Rounds() const { return JsonOf(Told().StatusJson()).at("rounds"); }

  uint64_t tests = 0;                    // test records
  std::map<std::string, uint64_t> cuts;  // states of checkpoints, by name

 private:
  int lives_ = 0;
};

inline constexpr auto kOftenCut = [](Job& job) { job.checkpoint.every_seconds = 5; };

}  // namespace paracord
