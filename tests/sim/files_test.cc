#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "common/probe.h"
#include "sim/world/sim_files.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

// Runs `act` on a machine, cuts the machine's power, and shows the disk to the next process.
struct AfterCrash {
  AfterCrash(uint64_t seed, const std::function<void(Files&)>& act, Death death = Death::kMachine)
      : world(seed, Swarm()) {
    SimNode& node = world.Start("writer", 0);
    Files& before = node.environment().files;
    REQUIRE(before.MakeDirectories("/d").ok());
    REQUIRE(before.SyncDirectory("/").ok());
    act(before);
    if (death == Death::kMachine) {
      world.CrashMachines({0});
    } else {
      world.Kill(node, death);
    }
    CHECK_FALSE(before.Open("/d/a").ok());  // the view is dead
  }
  Files& files() { return world.Start("reader", 0).environment().files; }
  std::string Read(const std::string& path) { return files().ReadWhole(path).value_or("(none)"); }

  SimWorld world;
};

void Write(Files& files, const std::string& path, const std::string& text, bool sync) {
  const auto file = files.Create(path);
  REQUIRE(file.ok());
  REQUIRE((*file)->Append(text).ok());
  if (sync) REQUIRE((*file)->Sync().ok());
}

TEST_CASE("what was written is read, listed, renamed and removed") {
  SimWorld world(1, Swarm());
  Files& files = world.Start("node", 0).environment().files;
  REQUIRE(files.MakeDirectories("/d/e").ok());
  CHECK(files.MakeDirectories("/d/e").ok());
  Write(files, "/d/e/b", "bytes", false);
  Write(files, "/d/e/a", "more", false);
  CHECK(*files.List("/d/e") == std::vector<std::string>{"a", "b"});
  CHECK(*files.ReadWhole("/d/e/b") == "bytes");
  CHECK(files.Rename("/d/e/b", "/d/c").ok());
  CHECK(*files.ReadWhole("/d/c") == "bytes");
  CHECK(files.Open("/d/e/b").status().code() == absl::StatusCode::kNotFound);
  CHECK(files.Rename("/d/e/b", "/d/c").code() == absl::StatusCode::kNotFound);
  char byte;
  const auto file = files.Open("/d/c");
  REQUIRE(file.ok());
  CHECK((*file)->size() == 5);
  CHECK((*file)->ReadAt(5, {&byte, 1}).code() == absl::StatusCode::kOutOfRange);
  CHECK((*file)->ReadAt(4, {&byte, 1}).ok());
  CHECK(byte == 's');
  CHECK(files.RemoveTree("/d/e").ok());
  CHECK(files.RemoveTree("/d/e").ok());
  CHECK(files.List("/d/e").status().code() == absl::StatusCode::kNotFound);
  CHECK(*files.List("/d") == std::vector<std::string>{"c"});
  CHECK_FALSE(files.Create("/no/such/directory").ok());
  CHECK_FALSE(files.MakeDirectories("/d/c/below").ok());
}

TEST_CASE("a killed process loses nothing that it wrote, synced or not") {
  AfterCrash crash(
      1, [](Files& files) { Write(files, "/d/a", "text", false); }, Death::kKill);
  CHECK(crash.Read("/d/a") == "text");
}

TEST_CASE("unsynced bytes may go with the power, synced ones never") {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    AfterCrash crash(seed, [](Files& files) {
      const auto file = files.Create("/d/a");
      REQUIRE((*file)->Append("syn").ok());
      REQUIRE((*file)->Sync().ok());
      REQUIRE((*file)->Append("un").ok());
      REQUIRE(files.SyncDirectory("/d").ok());
    });
    found.insert(crash.Read("/d/a"));
  }
  using namespace std::string_literals;
  CHECK(found == std::set<std::string>{"syn", "synu", "synun", "syn\0"s, "synu\0"s, "syn\0\0"s});
}

TEST_CASE("an unsynced name may go with the power, a synced one never") {
  for (const bool sync : {false, true}) {
    std::set<std::string> found;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      AfterCrash crash(seed, [sync](Files& files) {
        Write(files, "/d/a", "text", true);
        if (sync) REQUIRE(files.SyncDirectory("/d").ok());
      });
      found.insert(crash.Read("/d/a"));
    }
    if (sync) CHECK(found == std::set<std::string>{"text"});
    if (!sync) CHECK(found == std::set<std::string>{"text", "(none)"});
  }
}

TEST_CASE("a rename is whole: the old file or the new one, and the new one once it is synced") {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    AfterCrash crash(seed, [](Files& files) {
      REQUIRE(files.WriteAtomic("/d/a", "old").ok());
      Write(files, "/d/t", "new", true);
      REQUIRE(files.SyncDirectory("/d").ok());
      REQUIRE(files.Rename("/d/t", "/d/a").ok());
    });
    found.insert(crash.Read("/d/a") + " " + crash.Read("/d/t"));
  }
  CHECK(found == std::set<std::string>{"old new", "new (none)"});
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    AfterCrash crash(seed, [](Files& files) {
      REQUIRE(files.WriteAtomic("/d/a", "old").ok());
      REQUIRE(files.WriteAtomic("/d/a", "new").ok());
    });
    CHECK(crash.Read("/d/a") == "new");
  }
}

TEST_CASE("one machine's power loss leaves what another one wrote") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimWorld world(seed, Swarm());
    SimNode& crashed = world.Start("a", 0);
    SimNode& other = world.Start("b", 1);
    REQUIRE(other.environment().files.MakeDirectories("/d").ok());
    Write(other.environment().files, "/d/b", "kept", false);
    Write(crashed.environment().files, "/d/a", "lost", false);
    world.CrashMachines({0});
    CHECK(*other.environment().files.ReadWhole("/d/b") == "kept");
    CHECK(other.live());
  }
}

TEST_CASE("of several processes one claims a name, and a claim survives") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimWorld world(seed, Swarm());
    SimNode& a = world.Start("a", 0);
    SimNode& b = world.Start("b", 1);
    REQUIRE(a.environment().files.MakeDirectories("/d").ok());
    REQUIRE(a.environment().files.SyncDirectory("/").ok());
    if (seed % 2 == 0) a.DieAtOperation(1, Death::kMachine);
    const absl::Status first = a.environment().files.CreateExclusive("/d/claim", "a");
    const absl::Status second = b.environment().files.CreateExclusive("/d/claim", "b");
    CHECK_FALSE((first.ok() && second.ok()));
    if (seed % 2 != 0) {
      CHECK(first.ok());
      CHECK(second.code() == absl::StatusCode::kAlreadyExists);
      world.CrashMachines({0});
      CHECK(*b.environment().files.ReadWhole("/d/claim") == "a");
    }
  }
}

TEST_CASE("a death inside a write leaves a part of it") {
  std::set<size_t> sizes;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimWorld world(seed, Swarm());
    SimNode& node = world.Start("a", 0);
    Files& files = node.environment().files;
    REQUIRE(files.MakeDirectories("/d").ok());
    const auto file = files.Create("/d/a");
    node.DieAtOperation(1, Death::kKill);
    CHECK_FALSE((*file)->Append("four").ok());
    CHECK_FALSE((*file)->Sync().ok());
    CHECK_FALSE(files.Rename("/d/a", "/d/b").ok());
    sizes.insert(world.storage().Contents("/d/a")->size());
  }
  CHECK(sizes == std::set<size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("a full disk takes what fits and says so ever after") {
  SimWorld world(1, Swarm());
  Files& files = world.Start("a", 0).environment().files;
  const auto file = files.Create("/a");
  world.storage().faults().free_bytes = 6;
  CHECK((*file)->Append("1234").ok());
  CHECK((*file)->Append("5678").code() == absl::StatusCode::kResourceExhausted);
  world.storage().faults().free_bytes.reset();
  CHECK((*file)->Append("9").code() == absl::StatusCode::kResourceExhausted);
  CHECK((*file)->Sync().code() == absl::StatusCode::kResourceExhausted);
  CHECK(*world.storage().Contents("/a") == "123456");
}

TEST_CASE("a failed sync stays failed, and syncing again is a violation") {
  SimWorld world(1, Swarm());
  Files& files = world.Start("a", 0).environment().files;
  const auto file = files.Create("/a");
  world.storage().faults().fail_sync_in = 2;
  REQUIRE((*file)->Append("1").ok());
  CHECK((*file)->Sync().ok());
  CHECK_FALSE((*file)->Sync().ok());
  CHECK(world.violation().empty());
  CHECK_FALSE((*file)->Append("2").ok());
  CHECK_FALSE((*file)->Sync().ok());
  CHECK(world.violation().find("second sync") != std::string::npos);
}

TEST_CASE("nothing changes on a read-only disk, everything can be read") {
  SimWorld world(1, Swarm());
  Files& files = world.Start("a", 0).environment().files;
  REQUIRE(files.WriteAtomic("/a", "text").ok());
  const auto file = files.Create("/b");
  world.storage().faults().read_only = true;
  CHECK_FALSE((*file)->Append("1").ok());
  CHECK_FALSE(files.Create("/c").ok());
  CHECK_FALSE(files.CreateExclusive("/c", "").ok());
  CHECK_FALSE(files.Rename("/a", "/c").ok());
  CHECK_FALSE(files.MakeDirectories("/d").ok());
  CHECK_FALSE(files.RemoveTree("/a").ok());
  CHECK(*files.ReadWhole("/a") == "text");
}

TEST_CASE("a test can flip a bit of a file at rest, or cut it short") {
  SimWorld world(1, Swarm());
  Files& files = world.Start("a", 0).environment().files;
  REQUIRE(files.WriteAtomic("/a", "abc").ok());
  CHECK(world.storage().FlipBit("/a", 1, 0).ok());
  CHECK(*files.ReadWhole("/a") == "acc");
  CHECK(world.storage().Truncate("/a", 1).ok());
  CHECK(*files.ReadWhole("/a") == "a");
  CHECK_FALSE(world.storage().FlipBit("/a", 1, 0).ok());
  CHECK(world.storage().AllFiles().size() == 1);
}

TEST_CASE("removing a tree may stop half way at a death") {
  std::set<size_t> left;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimWorld world(seed, Swarm());
    SimNode& node = world.Start("a", 0);
    Files& files = node.environment().files;
    REQUIRE(files.MakeDirectories("/d").ok());
    for (const char* path : {"/d/a", "/d/b", "/d/c"}) Write(files, path, "text", true);
    node.DieAtOperation(1, Death::kKill);
    CHECK_FALSE(files.RemoveTree("/d").ok());
    left.insert(world.storage().AllFiles().size());
  }
  CHECK(left == std::set<size_t>{0, 1, 2, 3});
}

}  // namespace
}  // namespace paracord
