#include "common/files.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "spdlog/spdlog.h"
#include "tests/fakes.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

TEST_CASE("an atomic write that fails leaves what was there, and no temporary file") {
  const TestDirectory directory;
  PosixFiles files;
  directory.Write("there/inside", "kept");  // a directory is never replaced by a file
  CHECK_FALSE(files.WriteAtomic(directory / "there", "text").ok());
  CHECK(*files.List(directory.path()) == std::vector<std::string>{"there"});
  CHECK(*files.ReadWhole(directory / "there/inside") == "kept");
}

TEST_CASE("a name that leads out of its directory, by dots or a symbolic link, is refused") {
  const TestDirectory directory;
  PosixFiles files;
  directory.Write("base/inside/file", "text");
  directory.Write("outside/file", "text");
  const std::string base = directory / "base";
  std::filesystem::create_directory_symlink(directory / "outside", base + "/link");
  std::filesystem::create_directory_symlink(directory / "base/inside", base + "/within");
  for (const char* const name : {"inside", "inside/file", "nothing", "nothing/below", "a..b"}) {
    CAPTURE(name);
    CHECK(files.CheckBeneath(base, name).ok());
  }
  for (const char* const name :
       {"..", "../outside", "inside/../../outside", "link", "link/file", "within", "/etc"}) {
    CAPTURE(name);
    const absl::Status refused = files.CheckBeneath(base, name);
    CHECK(absl::IsPermissionDenied(refused));
    CHECK(std::string(refused.message()).find(base) != std::string::npos);
  }
  CHECK(files.CheckBeneath(directory / "none", "inside").ok());  // dangling
}

TEST_CASE("a path with a scheme is refused by name, and never a folder of that name") {
  const TestDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  PosixFiles files;
  for (const std::string path : {"gs://bucket/job", "hdfs://host:8020/job", "file:///job"}) {
    CAPTURE(path);
    const std::string given = AbsolutePath(path);
    CHECK(given == path);
    for (const absl::Status& refused :
         {files.Open(given).status(), files.Create(given).status(),
          files.OpenToAppend(given).status(), files.CreateExclusive(given, ""),
          files.Rename(given, directory / "a"), files.Rename(directory / "a", given),
          files.SyncDirectory(given), files.MakeDirectories(given), files.List(given).status(),
          files.RemoveTree(given), files.WriteAtomic(given, "")}) {
      CHECK(absl::IsInvalidArgument(refused));
      CHECK(std::string(refused.message()).find(path) != std::string::npos);
    }
  }
  CHECK(files.List(directory.path())->empty());
  std::filesystem::current_path(before);
}

TEST_CASE("schemes are told from names with colons") {
  CHECK(SchemeOf("s3://bucket/key") == "s3");
  CHECK(SchemeOf("abfss://a@b/c") == "abfss");
  for (const char* local : {"/a/b", "a:b", "s3:/b", "://b", "3s://b", "a b://c", "./s3://b", ""}) {
    CHECK(SchemeOf(local).empty());
  }
}

TEST_CASE("a path is relative to a directory, wherever that is") {
  CHECK(PathIn("/a/b", "../c") == "/a/c");
  CHECK(PathIn("/a/b", "/c/./d") == "/c/d");
  CHECK(PathIn("/a/b", "s3://c/../d") == "s3://c/../d");
  CHECK(PathIn("s3://bucket/a", "b/../c.csv") == "s3://bucket/a/c.csv");
  CHECK(PathIn("s3://bucket/a", "/c") == "/c");
}

TEST_CASE("directories that are made are synced in their parents") {
  const TestDirectory root;
  WatchedFiles files;
  const std::string ill = GENERATE(std::string(""), std::string("/a"), std::string("/a/b"));
  files.MakeIll("sync " + root.path() + ill);
  CHECK_FALSE(files.MakeDirectories(root / "a/b/c").ok());
  CHECK(files.MakeDirectories(root / "a/b/c").ok());  // the directories exist now
  CHECK(files.List(root / "a/b/c").ok());
}

TEST_CASE("a directory that its file system cannot sync is no error, one that is not there is") {
  spdlog::set_level(spdlog::level::off);
  PosixFiles files;
  CHECK(files.SyncDirectory("/proc").ok());
  CHECK(absl::IsNotFound(files.SyncDirectory("/proc/nothing")));
}

TEST_CASE("a path is made absolute, without \".\", \"..\" and a \"/\" at its end") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(AbsolutePath("a/./b/../c") == here + "/a/c");
  CHECK(AbsolutePath(".") == here);
  CHECK(AbsolutePath("/a/b/") == "/a/b");
  CHECK(AbsolutePath("/") == "/");
}

}  // namespace
}  // namespace paracord
