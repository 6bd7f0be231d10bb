// Orders whose directory leads out of DIR.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "server/ps_fixture.h"

namespace paracord {
namespace {

TEST_CASE("a checkpoint or a round that is a symbolic link is neither read nor written") {
  const TestDirectory outside;
  TestPs ps;
  ps.Ready();
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const std::string checkpoints = ps.dir() + "/checkpoints";
  std::filesystem::create_directories(checkpoints);
  std::filesystem::remove_all(checkpoints + "/" + order.directory());
  std::filesystem::create_directory_symlink(outside.path(), checkpoints + "/" + order.directory());
  const absl::Status snapshot = ps.Call<SnapshotReply>(method::kSnapshot, order).status();
  CHECK(absl::IsPermissionDenied(snapshot));
  CHECK(std::filesystem::is_empty(outside.path()));

  std::filesystem::create_directory_symlink(outside.path(), checkpoints + "/step-5-g1-r1");
  outside.Write("MANIFEST.json", "{}");
  REQUIRE(ps.Adopt(2).ok());
  CHECK(absl::IsPermissionDenied(ps.Load("step-5-g1-r1")));
}

TEST_CASE("a ps whose round's directory is gone says that the round was given up") {
  TestPs ps;
  ps.Ready();
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const std::string round = ps.dir() + "/checkpoints/" + order.directory();
  std::filesystem::remove_all(round);
  const absl::Status snapshot = ps.Call<SnapshotReply>(method::kSnapshot, order).status();
  CHECK(absl::IsNotFound(snapshot));
  const std::string said(snapshot.message());
  INFO(said);
  CHECK(said.find(round) != std::string::npos);
  CHECK(said.find(": the coordinator has given the round up and removed its directory, and its log "
                  "says why") != std::string::npos);
}

}  // namespace
}  // namespace paracord
