// Gaps that workers report in synchronous training: no partition has the state that a batch is to
// be computed on. Mostly somebody else has computed it meanwhile, which the ledgers tell. If
// reading after reading shows a partition without the batch, its state unserved and no progress
// anywhere, the state is lost and waiting is futile. If the state is served although a partition
// lacks the batch, the worker's report was false. Pure; owned by the core, which reads the ledgers
// after each report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

class RoundGaps {
 public:
  static constexpr uint32_t kReportsMax = 3;

  // A session found a gap at this batch.
  void Note(const BatchId& batch, uint64_t session) {
    noted_[{batch.split(), batch.batch()}].insert(session);
  }
  // The ledgers are asked for: they will tell of the gaps so far.
  void LedgersAsked() { asked_.merge(std::exchange(noted_, {})); }
  // What the ps say that were asked last.
  struct Reading {
    uint64_t epoch = 0;
    std::vector<uint32_t> next = {};  // batches of each lane that all partitions have
    uint64_t entered = 0;             // summed over all partitions
    bool served = true;               // each partition serves the state of the one furthest behind
  };
  struct Judgement {
    // The batch that has been reported kReportsMax times, each time before another reading, while
    // no partition entered anything and its state was not served.
    std::optional<BatchId> lost = {};
    std::set<uint64_t> untrue = {};  // sessions that reported a gap where there is none
  };
  Judgement LedgersRead(const Reading& reading);
  // A new generation, or another epoch, begins.
  void Forget();

 private:
  using Place = std::pair<uint64_t, uint32_t>;          // lane, batch
  using Reports = std::map<Place, std::set<uint64_t>>;  // with the sessions

  Reports noted_;  // since ledgers were last asked for
  Reports asked_;
  std::map<Place, uint32_t> reports_;
  uint64_t entered_ = 0;
};

}  // namespace paracord
