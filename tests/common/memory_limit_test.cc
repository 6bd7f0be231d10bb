#include "common/memory_limit.h"

#include <catch2/catch.hpp>

#include "tests/fakes.h"

namespace paracord {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST_CASE("a control group's limit counts, less what is in use but for caches") {
  TestDirectory root;
  root.Write("proc/meminfo", "MemTotal:  4194304 kB\nMemAvailable:  2097152 kB\n");
  CHECK(FindAvailableMemory(root.path()).bytes == 2048 * kMebibyte);
  CHECK(FindAvailableMemory(root.path()).by == "machine");

  SECTION("version 2, of the group itself and of those above") {
    root.Write("proc/self/cgroup", "0::/jobs/ps\n");
    root.Write("sys/fs/cgroup/jobs/ps/memory.max", "max\n");
    CHECK(FindAvailableMemory(root.path()).bytes == 2048 * kMebibyte);
    root.Write("sys/fs/cgroup/jobs/memory.max", std::to_string(1000 * kMebibyte) + "\n");
    root.Write("sys/fs/cgroup/jobs/memory.current", std::to_string(300 * kMebibyte) + "\n");
    root.Write("sys/fs/cgroup/jobs/memory.stat",
               "anon 1\ninactive_file " + std::to_string(100 * kMebibyte) + "\n");
    CHECK(FindAvailableMemory(root.path()).bytes == 800 * kMebibyte);
    CHECK(FindAvailableMemory(root.path()).by == "cgroup /jobs");
    root.Write("sys/fs/cgroup/jobs/ps/memory.max", std::to_string(500 * kMebibyte) + "\n");
    CHECK(FindAvailableMemory(root.path()).bytes == 500 * kMebibyte);
  }
  SECTION("version 2 in a container, whose own group is the root") {
    root.Write("proc/self/cgroup", "0::/\n");
    root.Write("sys/fs/cgroup/memory.max", std::to_string(64 * kMebibyte) + "\n");
    root.Write("sys/fs/cgroup/memory.current", std::to_string(65 * kMebibyte) + "\n");
    CHECK(FindAvailableMemory(root.path()).bytes == 0);
  }
  SECTION("version 1, among other controllers") {
    root.Write("proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/a\n3:pids:/\n");
    root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    root.Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(400 * kMebibyte));
    root.Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(200 * kMebibyte));
    root.Write("sys/fs/cgroup/memory/a/memory.stat",
               "total_inactive_file " + std::to_string(50 * kMebibyte) + "\n");
    CHECK(FindAvailableMemory(root.path()).bytes == 250 * kMebibyte);
    CHECK(FindAvailableMemory(root.path()).by == "cgroup /a");
  }
}

TEST_CASE("where nothing says how much memory there is, there is no limit") {
  TestDirectory root;
  CHECK(FindAvailableMemory(root.path()).bytes == UINT64_MAX);
  CHECK(FindAvailableMemory().bytes < uint64_t{1} << 50);  // of this machine
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
