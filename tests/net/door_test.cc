// Tests a door in a process that has no descriptors left.
#include "net/door.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "net/stream_pair.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

TEST_CASE("a listener without descriptors says so, with the limit, and not for each connection") {
  const auto before = spdlog::default_logger();
  const auto level = spdlog::get_level();
  const auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  const int next = open("/dev/null", O_RDONLY);
  REQUIRE(next >= 0);
  close(next);
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  rlimit few = files;
  few.rlim_cur = static_cast<rlim_t>(next) + 30;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<int> strangers;
  {
    const auto door = Door::Listen("127.0.0.1:0");
    REQUIRE(door.ok());
    (*door)->Open({}, [](int fd) { close(fd); });
    for (int i = 0; i < 10; ++i) {
      NameLookup name((*door)->address());
      const absl::StatusOr<int> fd = ConnectSocket(name, 1000);
      if (fd.ok()) strangers.push_back(*fd);
    }
    CHECK(Soon([&] { return !sink->last_formatted().empty(); }));
  }
  for (const int fd : strangers) close(fd);
  setrlimit(RLIMIT_NOFILE, &files);
  spdlog::set_default_logger(before);
  spdlog::set_level(level);
  const std::vector<std::string> said = sink->last_formatted();
  REQUIRE(said.size() == 1);
  INFO(said.front());
  CHECK(said.front().find("may have " + std::to_string(next + 30)) != std::string::npos);
}

}  // namespace
}  // namespace paracord
