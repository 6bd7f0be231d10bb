#include "coordinator/core/move.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paracord {
namespace {

// Prepares checkpoints that take so many milliseconds to write and to read. Returns how many of
// them were prepared when training was allowed to stop.
size_t PreparedUntilStop(const std::vector<int64_t>& writes_ms,
                         const std::vector<int64_t>& reads_ms) {
  Move move;
  int64_t now_ms = 1000;
  move.Begin({}, now_ms);
  move.Prepare("", now_ms);  // there is no checkpoint yet
  for (size_t i = 0; i < writes_ms.size(); ++i) {
    move.WantCheckpoint(now_ms);
    REQUIRE(move.wants_checkpoint());
    now_ms += writes_ms[i];
    move.CheckpointTaken();
    move.WantCheckpoint(now_ms);  // it is asked for again until the checkpoint is seen
    move.Prepare(std::to_string(i), now_ms);
    now_ms += reads_ms[i];
    const bool stops = move.Prepared(now_ms);
    CHECK(move.Prepared(now_ms + 5000) == stops);  // it is counted once
    if (stops) return i + 1;
  }
  return 0;
}

TEST_CASE("training stops for a move once a checkpoint is short to write and to read") {
  // The first one is whole, and never the last.
  CHECK(PreparedUntilStop({10, 10}, {10, 10}) == 2);
  // One that is read in no time, and takes long to write, is followed by a smaller one.
  CHECK(PreparedUntilStop({20000, 5000, 3000, 1500, 700}, {4000, 800, 500, 250, 100}) == 5);
  CHECK(PreparedUntilStop({20000, 700}, {4000, 200}) == 2);
}

TEST_CASE("training stops for a move once checkpoints take no less time, or after six") {
  CHECK(PreparedUntilStop({9000, 4000, 3500}, {1000, 1000, 1000}) == 3);
  CHECK(PreparedUntilStop({64000, 32000, 16000, 8000, 4000, 2000}, {0, 0, 0, 0, 0, 0}) == 6);
}

}  // namespace
}  // namespace paracord
