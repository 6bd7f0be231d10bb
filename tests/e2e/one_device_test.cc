// Training on one device takes one process without peers, which opens no TCP port.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "e2e/process.h"
#include "e2e/train.h"

namespace paracord::e2e {
namespace {

// Returns the inodes of all listening TCP sockets on this machine.
std::set<std::string> Listening() {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(ReadText(table));
    std::string line;
    std::getline(lines, line);  // the table's header
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string field, state, socket;
      for (int i = 0; i < 10 && fields >> field; ++i) {
        if (i == 3) state = field;
        if (i == 9) socket = field;
      }
      if (state == "0A") sockets.insert(absl::StrCat("socket:[", socket, "]"));
    }
  }
  return sockets;
}

// Returns how many of the listening sockets belong to a process.
size_t PortsOf(pid_t pid) {
  const std::set<std::string> listening = Listening();
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"))) {
    std::error_code gone;
    const std::string leads = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && listening.contains(leads)) ++count;
  }
  return count;
}

TEST_CASE("a job on one device is one process that opens no port, but for --http") {
  for (const bool shows : {false, true}) {
    CAPTURE(shows);
    Train train(/*steps=*/1'000'000);
    std::vector<std::string> flags = {"--workers", "1", "--set", "strategy=one_device"};
    if (shows) flags.insert(flags.end(), {"--http", "127.0.0.1:0"});
    const auto process = train.Start(flags);
    const bool trains = train.WaitUntilTraining();
    INFO(train.log());
    REQUIRE(trains);
    const std::vector<pid_t> daemons = train.Daemons();
    REQUIRE(daemons.size() == 1);
    CHECK(PortsOf(daemons[0]) == (shows ? 1 : 0));
    CHECK(PortsOf(process->pid()) == 0);
  }
}

}  // namespace
}  // namespace paracord::e2e
