#include "common/files.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("an atomic write that fails leaves what was there, and no temporary file") {
  const TestDirectory directory;
  PosixFiles files;
  directory.Write("there/inside", "kept");  // no file takes the place of a directory
  CHECK_FALSE(files.WriteAtomic(directory / "there", "text").ok());
  CHECK(*files.List(directory.path()) == std::vector<std::string>{"there"});
  CHECK(*files.ReadWhole(directory / "there/inside") == "kept");
}

TEST_CASE("a path is made absolute, without what says nothing") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(AbsolutePath("a/./b/../c") == here + "/a/c");
  CHECK(AbsolutePath(".") == here);
  CHECK(AbsolutePath("/a/b/") == "/a/b");
  CHECK(AbsolutePath("/") == "/");
}

}  // namespace
}  // namespace paracord
