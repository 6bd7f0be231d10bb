#include "coordinator/core/checkpoints.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

namespace paracord {
namespace {

// Returns a checkpoint of one trained partition with `batches` entered batches.
Manifest At(uint64_t batches, bool healthy = true) {
  Manifest manifest;
  manifest.name = {batches, 1, batches};
  manifest.variables.emplace_back().set_trainable(true);
  ManifestPartition& partition = manifest.partitions.emplace_back();
  partition.applied = partition.updates = batches;
  partition.healthy = healthy;
  return manifest;
}

std::string NameAt(uint64_t batches) { return At(batches).name.ToString(); }

TEST_CASE("a checkpoint that was refused is neither restored nor removed") {
  Checkpoints checkpoints({At(30), At(20), At(10)}, {});
  CHECK(checkpoints.Usable()->name.step == 30);
  checkpoints.Refuse(NameAt(30), "a checksum is wrong");
  CHECK(checkpoints.newest()->name.step == 30);
  CHECK(checkpoints.Usable()->name.step == 20);
  CHECK(checkpoints.Holding(30) == nullptr);
  CHECK(checkpoints.Holding(20) != nullptr);
  CHECK(checkpoints.Thin(1, "") == std::vector<std::string>{NameAt(10)});
  CHECK(checkpoints.newest()->name.step == 30);
}

TEST_CASE("the newest stay, with the newest healthy one and the best") {
  Checkpoints checkpoints({At(40, false), At(30, false), At(20), At(10), At(5)}, {});
  CHECK(checkpoints.Thin(1, NameAt(5)) == std::vector<std::string>{NameAt(30), NameAt(10)});
  CHECK(checkpoints.Holding(20) != nullptr);
  CHECK(checkpoints.Holding(5) != nullptr);
}

TEST_CASE("a checkpoint that is being read stays, with its chain") {
  Manifest delta = At(20);
  delta.base = NameAt(10);
  Checkpoints checkpoints({At(40), At(30), delta, At(10)}, {});
  CHECK(checkpoints.Thin(1, "", {NameAt(20)}) == std::vector<std::string>{NameAt(30)});
  CHECK(checkpoints.Thin(1, "") == std::vector<std::string>{NameAt(20), NameAt(10)});
}

TEST_CASE("a checkpoint that holds what the newer one holds is replaced by it") {
  Manifest again = At(20);
  again.name.generation = 2;
  Checkpoints checkpoints({again, At(20), At(10)}, {});
  CHECK(checkpoints.Thin(2, "") == std::vector<std::string>{NameAt(20)});
  CHECK(checkpoints.Holding(10) != nullptr);
}

// Returns a delta of the checkpoint with `base` batches.
Manifest Delta(uint64_t batches, uint64_t base) {
  Manifest manifest = At(batches);
  manifest.base = NameAt(base);
  return manifest;
}

TEST_CASE("a checkpoint stays as long as another continues it") {
  Checkpoints checkpoints({Delta(50, 40), Delta(40, 30), At(30), Delta(20, 10), At(10)}, {});
  SECTION("and beside the chain of the newest no other, if one is kept") {
    CHECK(checkpoints.Thin(1, "") == std::vector<std::string>{NameAt(20), NameAt(10)});
    CHECK(checkpoints.Thin(1, "").empty());
    CHECK(checkpoints.Holding(30) != nullptr);
  }
  SECTION("and another full one, should that of the newest be damaged") {
    CHECK(checkpoints.Thin(2, "") == std::vector<std::string>{NameAt(20)});
    checkpoints.Add(At(60));
    CHECK(checkpoints.Thin(2, "") == std::vector<std::string>{NameAt(10)});
  }
  SECTION("and the best with its chain") { CHECK(checkpoints.Thin(1, NameAt(20)).empty()); }
}

TEST_CASE("one that cannot be read keeps what it may continue") {
  const std::string full = std::string("write: ") + std::strerror(ENOSPC);
  SECTION("in the middle of a chain") {
    Checkpoints checkpoints({Delta(50, 40), At(30), At(10)}, {{NameAt(40), "I/O error"}});
    CHECK(checkpoints.MakeRoom(full, "") == std::vector<std::string>{NameAt(10)});
    CHECK(checkpoints.MakeRoom(full, "").empty());
    checkpoints.Add(At(60));
    CHECK(checkpoints.Thin(2, "").empty());
    CHECK(checkpoints.Thin(1, "") == std::vector<std::string>{NameAt(50)});
  }
  SECTION("at the end of one") {
    Checkpoints checkpoints({Delta(30, 20), At(20), At(10)},
                            {{NameAt(50), "I/O error"}, {NameAt(40), "I/O error"}});
    checkpoints.Add(At(60));
    CHECK(checkpoints.Thin(1, "") == std::vector<std::string>{NameAt(10)});
    CHECK(checkpoints.Holding(20) != nullptr);
    CHECK(checkpoints.Holding(30) != nullptr);
  }
}

TEST_CASE("a checkpoint may be continued until its chain is long enough") {
  Checkpoints checkpoints({Delta(50, 40), Delta(40, 30), At(30)}, {});
  CHECK(checkpoints.Continued(1).empty());
  CHECK(checkpoints.Continued(3).empty());
  CHECK(checkpoints.Continued(4) == std::vector<std::string>{NameAt(50), NameAt(40), NameAt(30)});
  checkpoints.Refuse(NameAt(30), "a checksum is wrong");
  CHECK(checkpoints.Continued(4).empty());
  CHECK(Checkpoints({At(30)}, {}).Continued(2) == std::vector<std::string>{NameAt(30)});
  CHECK(Checkpoints({At(30)}, {}).Continued(1).empty());
  CHECK(Checkpoints({Delta(50, 40)}, {}).Continued(9).empty());
  CHECK(Checkpoints({}, {}).Continued(9).empty());
}

TEST_CASE("where a full checkpoint does not fit, the chain goes on until one does") {
  const std::string full = std::string("write: ") + std::strerror(ENOSPC);
  Checkpoints checkpoints({Delta(50, 40), Delta(40, 30), At(30)}, {});
  CHECK_FALSE(checkpoints.ContinueInstead("the connection broke", 4));
  CHECK_FALSE(checkpoints.ContinueInstead(full, 1));
  CHECK(checkpoints.Continued(3).empty());
  CHECK(checkpoints.ContinueInstead(full, 3));
  CHECK(checkpoints.continues_instead());
  CHECK(checkpoints.Continued(3).size() == 3);
  checkpoints.Add(Delta(60, 50));
  checkpoints.Add(Delta(70, 60));
  CHECK(checkpoints.Continued(3).size() == 5);
  checkpoints.Add(Delta(80, 70));
  CHECK(checkpoints.Continued(3).empty());  // retries with a full checkpoint
  checkpoints.Add(At(90));
  CHECK_FALSE(checkpoints.continues_instead());
  checkpoints.Add(Delta(100, 90));
  checkpoints.Add(Delta(110, 100));
  CHECK(checkpoints.Continued(3).empty());
}

TEST_CASE("what rests on a checkpoint that is gone is not continued or restored") {
  Checkpoints checkpoints({Delta(50, 40), Delta(40, 30), At(30), At(10)}, {});
  checkpoints.Lose(NameAt(40), checkpoints.Continued(9));
  CHECK(checkpoints.Usable()->name.step == 30);
  CHECK(checkpoints.refused().at(NameAt(40)) == "it is gone");
  CHECK(checkpoints.refused().at(NameAt(50)) == "it continues " + NameAt(40) + ", which is gone");
  CHECK(checkpoints.Continued(9) == std::vector<std::string>{NameAt(30)});
}

TEST_CASE("a full disk costs the oldest checkpoint, and never the only one") {
  const std::string full = std::string("write: ") + std::strerror(ENOSPC);
  Checkpoints checkpoints({At(20), At(10)}, {});
  CHECK(checkpoints.MakeRoom("the connection broke", "").empty());
  CHECK(checkpoints.MakeRoom(full, "") == std::vector<std::string>{NameAt(10)});
  CHECK(checkpoints.MakeRoom(full, "").empty());
  CHECK(checkpoints.newest()->name.step == 20);
}

TEST_CASE("a full disk costs what the newest checkpoint does not continue, if there are chains") {
  const std::string full = std::string("write: ") + std::strerror(ENOSPC);
  Checkpoints on_old({Delta(50, 40), Delta(40, 30), At(30), At(10)}, {});
  CHECK(on_old.MakeRoom(full, "") == std::vector<std::string>{NameAt(10)});
  CHECK(on_old.MakeRoom(full, "").empty());
  Checkpoints on_new({At(50), Delta(40, 30), Delta(30, 20), At(20)}, {});
  CHECK(on_new.MakeRoom(full, "") == std::vector<std::string>{NameAt(40), NameAt(30), NameAt(20)});
}

TEST_CASE("checkpoints are lost if there were some and none can be restored") {
  Checkpoints none({}, {});
  CHECK_FALSE(none.Lost(0));
  CHECK(none.Lost(3));
  CHECK(none.LostReason("/job", 3).find("at least 3 were committed") != std::string::npos);
  Checkpoints damaged({At(10)}, {{NameAt(10), "a checksum is wrong"}});
  CHECK(damaged.Lost(0));
  CHECK(damaged.LostReason("/job", 1).find("a checksum is wrong") != std::string::npos);
  CHECK(damaged.LostReason("/job", 1).find("begin anew") != std::string::npos);

  // Nobody is told to remove what the storage may still have.
  Checkpoints doubted({}, {});
  doubted.Doubt("step-1-g1-r1", "Read-only file system");
  CHECK(doubted.doubted());
  CHECK(doubted.Lost(0));
  CHECK(
      doubted.LostReason("/job", 0) ==
      "no checkpoint can be restored: damaged or unreadable in /job/checkpoints: step-1-g1-r1: it "
      "is not known whether it was committed: Read-only file system. A coordinator that is "
      "started again asks the storage once more");
}

TEST_CASE("a restore takes the job back as far as the oldest checkpoint") {
  CHECK(Checkpoints({}, {}).LeastEntered(50) == 0);
  CHECK(Checkpoints({At(30), At(10)}, {}).LeastEntered(50) == 10);
  CHECK(Checkpoints({At(30), At(10)}, {}).LeastEntered(5) == 5);
}

}  // namespace
}  // namespace paracord
