// Gaps that workers report in synchronous training: no partition serves the state on which a batch
// has to be computed. Usually another worker has computed the batch meanwhile, as the ledgers show.
// If repeated readings show a partition without the batch, its state unserved, and no progress
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

  // A session reports a gap at `batch`.
  void Note(const BatchId& batch, uint64_t session) {
    noted_[{batch.split(), batch.batch()}].insert(session);
  }
  // The ledgers have been asked for, and will judge the gaps reported so far.
  void LedgersAsked() { asked_.merge(std::exchange(noted_, {})); }
  // The answer of the ps to the newest reading.
  struct Reading {
    uint64_t epoch = 0;
    std::vector<uint32_t> next = {};  // for each lane, the batches that all partitions have
    uint64_t entered = 0;             // the sum over all partitions
    bool served = true;               // every partition serves the least state of all
  };
  struct Judgement {
    // The batch that has been reported kReportsMax times, each time before a different reading,
    // while no partition entered anything and the state was not served.
    std::optional<BatchId> lost = {};
    std::set<uint64_t> untrue = {};  // sessions that reported a gap where there is none
  };
  Judgement LedgersRead(const Reading& reading);
  // Forgets everything: a new generation or another epoch begins.
  void Forget();

 private:
  using Place = std::pair<uint64_t, uint32_t>;          // lane, batch
  using Reports = std::map<Place, std::set<uint64_t>>;  // -> sessions

  Reports noted_;  // since the ledgers were last asked for
  Reports asked_;
  std::map<Place, uint32_t> reports_;
  uint64_t entered_ = 0;
};

}  // namespace paracord
