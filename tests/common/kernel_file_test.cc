// Reads kernel files, which report no size, to their end.
#include "common/kernel_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE(
    "a file that says that it is empty is read to its end, and one that is not there is \"\"") {
  const std::string stat = ReadKernelFile("/proc/self/stat");
  CHECK(stat.starts_with(std::to_string(getpid()) + " ("));
  CHECK(stat.ends_with('\n'));
  CHECK(ReadKernelFile("/proc/self/none").empty());
  CHECK(ReadKernelFile("/proc/self").empty());  // is a directory
}

TEST_CASE("a file is read in as many steps as it needs, and not without end") {
  const TestDirectory directory;
  const std::string text(100000, 'x');
  std::ofstream(directory / "long") << text << "y";
  CHECK(ReadKernelFile(directory / "long") == text + "y");
  CHECK(ReadKernelFile("/dev/zero").size() == 4 << 20);
}

}  // namespace
}  // namespace paracord
