// Gaps that workers report in synchronous training: no partition has the state that a batch is to
// be computed on. Mostly somebody else has computed it meanwhile, which the ledgers tell. If they
// tell time and again that a partition still lacks the batch, and that nothing has come further,
// the state is lost and waiting brings nothing. Pure; owned by the core, which reads the ledgers
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

  // A worker found a gap at this batch.
  void Note(const BatchId& batch) { noted_.emplace(batch.split(), batch.batch()); }
  // The ledgers are asked for: they will tell of the gaps so far.
  void LedgersAsked() { asked_.merge(std::exchange(noted_, {})); }
  // The ledgers asked for last say that the lanes of `epoch` are entered up to `next`, and that all
  // partitions together have entered so many batches. Returns the batch that has been reported
  // kReportsMax times, each time before another reading, while no partition entered anything.
  std::optional<BatchId> LedgersRead(uint64_t epoch, const std::vector<uint32_t>& next,
                                     uint64_t entered);
  // A new generation, or another epoch, begins.
  void Forget();

 private:
  using Place = std::pair<uint64_t, uint32_t>;  // lane, batch

  std::set<Place> noted_;  // since ledgers were last asked for
  std::set<Place> asked_;
  std::map<Place, uint32_t> reports_;
  uint64_t entered_ = 0;
};

}  // namespace paracord
