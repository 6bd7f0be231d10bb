#include "common/memory_limit.h"

#include <catch2/catch.hpp>

#include "tests/fakes.h"

namespace paracord {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST_CASE("the limit of a control group counts, or else what the machine has") {
  TestDirectory root;
  root.Write("proc/meminfo", "MemTotal:  2097152 kB\nMemAvailable:  1024 kB\n");
  CHECK(FindMemory(root.path()).bytes == 2048 * kMebibyte);
  CHECK(FindMemory(root.path()).by == "machine");

  SECTION("version 2, of the group itself and of those above") {
    root.Write("proc/self/cgroup", "0::/jobs/ps\n");
    root.Write("sys/fs/cgroup/jobs/ps/memory.max", "max\n");
    CHECK(FindMemory(root.path()).bytes == 2048 * kMebibyte);
    root.Write("sys/fs/cgroup/jobs/memory.max", std::to_string(1000 * kMebibyte) + "\n");
    root.Write("sys/fs/cgroup/jobs/memory.current", std::to_string(900 * kMebibyte) + "\n");
    CHECK(FindMemory(root.path()).bytes == 1000 * kMebibyte);
    CHECK(FindMemory(root.path()).by == "cgroup /jobs");
    root.Write("sys/fs/cgroup/jobs/ps/memory.max", std::to_string(500 * kMebibyte) + "\n");
    CHECK(FindMemory(root.path()).bytes == 500 * kMebibyte);
    CHECK(FindMemory(root.path()).by == "cgroup /jobs/ps");
  }
  SECTION("version 2 in a container, whose own group is the root") {
    root.Write("proc/self/cgroup", "0::/\n");
    root.Write("sys/fs/cgroup/memory.max", std::to_string(64 * kMebibyte) + "\n");
    CHECK(FindMemory(root.path()).bytes == 64 * kMebibyte);
  }
  SECTION("version 1, among other controllers") {
    root.Write("proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/a\n3:pids:/\n");
    root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    root.Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(400 * kMebibyte));
    CHECK(FindMemory(root.path()).bytes == 400 * kMebibyte);
    CHECK(FindMemory(root.path()).by == "cgroup /a");
  }
}

TEST_CASE("where nothing says how much memory there is, there is no limit") {
  TestDirectory root;
  CHECK(FindMemory(root.path()).bytes == UINT64_MAX);
  CHECK(FindMemory().bytes < uint64_t{1} << 50);  // the limit of this machine
}

TEST_CASE("a number of bytes has a unit of 1024's powers, or none") {
  const std::pair<const char*, uint64_t> good[] = {{"1073741824", 1024 * kMebibyte},
                                                   {"512MiB", 512 * kMebibyte},
                                                   {"2GiB", 2048 * kMebibyte},
                                                   {"1.5GiB", 1536 * kMebibyte},
                                                   {"2g", 2048 * kMebibyte},
                                                   {"2GB", 2048 * kMebibyte},
                                                   {"1024k", kMebibyte},
                                                   {"1T", kMebibyte << 20},
                                                   {"7", 7},
                                                   {"7B", 7}};
  for (const auto& [text, bytes] : good) {
    CAPTURE(text);
    CHECK(ParseBytes(text).value_or(0) == bytes);
  }
  for (const char* text : {"", "MiB", "0", "-1", "1 GiB", "1e9", "inf", "nan", "2Gi2",
                           "9999999999T", "1..5GiB", "0.5"}) {
    CAPTURE(text);
    CHECK(ParseBytes(text).status().message() ==
          "\"" + std::string(text) +
              "\" is no number of bytes, such as 1073741824, 512MiB or 2GiB");
  }
}

}  // namespace
}  // namespace paracord
