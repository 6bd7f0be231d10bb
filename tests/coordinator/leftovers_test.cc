#include "coordinator/leftovers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "fakes.h"
#include "storage/checkpoint.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

template <class FilesType = PosixFiles>
class Tree {
 public:
  void Make(const std::string& name, bool manifest) {
    REQUIRE(files.MakeDirectories(Path(name)).ok());
    REQUIRE(files.WriteAtomic(Path(name) + "/ps", "tensors").ok());
    if (manifest) REQUIRE(files.WriteAtomic(Path(name) + "/" + kManifestName, "{}").ok());
  }
  std::vector<std::string> Clean(uint64_t generation) {
    RemoveLeftovers(files, directory.path(), generation);
    std::vector<std::string> names = *files.List(directory.path());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Path(const std::string& name) const { return directory.path() + "/" + name; }

  TestDirectory directory;
  FilesType files;
};

using Names = std::vector<std::string>;

TEST_CASE("what older generations left half done goes, and nothing else") {
  Tree<> tree;
  tree.Make("round-g2-r7", false);
  tree.Make("step-40-g2-r6", false);
  tree.Make("step-30-g2-r5", true);
  tree.Make("round-g3-r8", false);
  tree.Make("step-50-g3-r8", false);
  tree.Make("round-g4-r8", false);
  tree.Make("round-gx-r8", false);
  tree.Make("notes", false);
  CHECK(tree.Clean(3) == Names{"notes", "round-g3-r8", "round-g4-r8", "round-gx-r8",
                               "step-30-g2-r5", "step-50-g3-r8"});
}

TEST_CASE("a cleaning that died is gone on with, and a checkpoint it had taken is put back") {
  Tree<> tree;
  tree.Make("leftover-round-g1-r2", false);
  tree.Make("leftover-step-8-g1-r3", false);
  tree.Make("leftover-step-9-g1-r4", true);
  CHECK(tree.Clean(2) == Names{"step-9-g1-r4"});
}

TEST_CASE("of a commit that failed nothing stays, unless the manifest is there after all") {
  Tree<> tree;
  tree.Make("step-40-g2-r6", false);
  tree.Make("step-50-g2-r7", true);
  const auto remove = [&](const std::string& name) {
    return RemoveUncommitted(tree.files, tree.directory.path(), name);
  };
  CHECK(remove("step-40-g2-r6") == absl::StatusOr<bool>(false));
  CHECK(remove("step-50-g2-r7") == absl::StatusOr<bool>(true));
  CHECK(remove("step-60-g2-r8") == absl::StatusOr<bool>(false));
  CHECK(tree.Clean(2) == Names{"step-50-g2-r7"});
}

TEST_CASE("of a checkpoint whose commit cannot be made durable nobody knows whether it stands") {
  Tree<WatchedFiles> tree;
  tree.Make("step-50-g2-r7", true);
  tree.files.MakeIll("sync " + tree.Path("step-50-g2-r7"));
  CHECK_FALSE(RemoveUncommitted(tree.files, tree.directory.path(), "step-50-g2-r7").ok());
}

TEST_CASE("a late write by the old name fails") {
  Tree<> tree;
  tree.Make("round-g1-r2", false);
  tree.Clean(2);
  CHECK_FALSE(tree.files.WriteAtomic(tree.Path("round-g1-r2/ps-0"), "late").ok());
  CHECK_FALSE(tree.files.Rename(tree.Path("round-g1-r2"), tree.Path("step-1-g1-r2")).ok());
  CHECK(tree.Clean(2).empty());
}

}  // namespace
}  // namespace paracord
