// Judges the gaps that workers report in synchronous training. A worker meets a gap if no ps has
// the state (the values after a certain round) on which the worker has to compute a batch. Usually
// another worker has computed the batch meanwhile, as the ledgers show. If repeated readings of the
// ledgers show a partition without the batch, partitions that cannot all serve one state, and no
// progress in any partition, the state is lost and waiting is futile. If all partitions can serve
// one state although a partition lacks the batch, the worker's report was false. Does no I/O; owned
// by the core, which reads the ledgers after a report.
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
  // The ledgers are being read: the reading will judge the gaps reported so far.
  void LedgersAsked() { asked_.merge(std::exchange(noted_, {})); }
  // What the newest reading of the ledgers showed.
  struct Reading {
    uint64_t epoch = 0;
    std::vector<uint32_t> next = {};  // for each lane, how many batches all partitions have entered
    uint64_t entered = 0;             // batches entered, summed over all partitions
    bool served = true;  // all partitions can serve the state of the one furthest behind
  };
  struct Judgement {
    // A batch that kReportsMax readings found reported and missing, while no partition entered
    // anything and the state was not served.
    std::optional<BatchId> lost = {};
    std::set<uint64_t> untrue = {};  // sessions that reported a gap although the state is served
  };
  // Judges the gaps reported before the newest LedgersAsked.
  Judgement LedgersRead(const Reading& reading);
  // Forgets all reports, for example because a new generation begins.
  void Forget();

 private:
  using Place = std::pair<uint64_t, uint32_t>;          // lane, batch
  using Reports = std::map<Place, std::set<uint64_t>>;  // values: sessions

  Reports noted_;                      // since the ledgers were last asked for
  Reports asked_;                      // reported before that, and not judged yet
  std::map<Place, uint32_t> reports_;  // readings that found the batch reported and missing
  uint64_t entered_ = 0;               // Reading::entered of the newest reading
};

}  // namespace paracord
