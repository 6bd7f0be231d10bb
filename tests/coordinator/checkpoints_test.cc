#include "coordinator/core/checkpoints.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

namespace paracord {
namespace {

// A checkpoint of one trained partition that has entered so many batches.
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

TEST_CASE("a checkpoint that holds what the newer one holds is replaced by it") {
  Manifest again = At(20);
  again.name.generation = 2;
  Checkpoints checkpoints({again, At(20), At(10)}, {});
  CHECK(checkpoints.Thin(2, "") == std::vector<std::string>{NameAt(20)});
  CHECK(checkpoints.Holding(10) != nullptr);
}

TEST_CASE("a full disk costs the oldest checkpoint, and never the only one") {
  const std::string full = std::string("write: ") + std::strerror(ENOSPC);
  Checkpoints checkpoints({At(20), At(10)}, {});
  CHECK(checkpoints.MakeRoom("the connection broke", "").empty());
  CHECK(checkpoints.MakeRoom(full, "") == std::vector<std::string>{NameAt(10)});
  CHECK(checkpoints.MakeRoom(full, "").empty());
  CHECK(checkpoints.newest()->name.step == 20);
}

TEST_CASE("checkpoints are lost if there were some and none can be restored") {
  Checkpoints none({}, {});
  CHECK_FALSE(none.Lost(0));
  CHECK(none.Lost(3));
  CHECK(none.LostReason("/job", 3).find("at least 3 were committed") != std::string::npos);
  Checkpoints damaged({At(10)}, {{NameAt(10), "a checksum is wrong"}});
  CHECK(damaged.Lost(0));
  CHECK(damaged.LostReason("/job", 1).find("a checksum is wrong") != std::string::npos);
}

TEST_CASE("a restore takes the job back as far as the oldest checkpoint") {
  CHECK(Checkpoints({}, {}).LeastEntered(50) == 0);
  CHECK(Checkpoints({At(30), At(10)}, {}).LeastEntered(50) == 10);
  CHECK(Checkpoints({At(30), At(10)}, {}).LeastEntered(5) == 5);
}

}  // namespace
}  // namespace paracord
