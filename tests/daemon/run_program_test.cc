#include <fcntl.h>
#include <grpc/support/log.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <new>
#include <string>

#include "common/log_format.h"
#include "daemon/daemon_process.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

void Throw() { throw std::bad_alloc(); }
int NoMemory(int, char**) noexcept {
  Throw();
  return 0;
}
int Three(int, char**) { return 3; }

int LogsOfGrpc(int, char**) {
  SetUpLogging("info", "json");
  gpr_log_verbosity_init();  // called by a program's first channel or server
  gpr_log("tsi/ssl_transport_security.cc", 1501, GPR_LOG_SEVERITY_ERROR, "Handshake failed");
  gpr_log("tcp_server.cc", 1, GPR_LOG_SEVERITY_ERROR, "accept4 failed: \x1b[31m%s", "no socket");
  return 0;
}

int AsksForVersion(int, char**) {
  char name[] = "/usr/bin/paracord-ps", asks[] = "--version";
  char* args[] = {name, asks, nullptr};
  Flags flags("paracord-ps", "");
  std::cout.rdbuf(std::cerr.rdbuf());
  return ParseOrExit(flags, 2, args).value_or(-1);
}

int FirstDescriptor(int, char**) { return open("/dev/null", O_RDONLY); }

// Returns what a program with this main writes to stderr, and its wait status.
std::pair<std::string, int> Run(int (*main)(int, char**), bool closed = false) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::cout.flush();  // the child must not print the parent's buffer
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (int fd = 0; closed && fd < 3; ++fd) close(fd);
    RunProgram(0, nullptr, main);
  }
  close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof(part))) > 0;) {
    said.append(part, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return {said, status};
}

TEST_CASE("a program without memory says so before it ends") {
  const auto [said, status] = Run(NoMemory);
  INFO(said);
  CHECK(said.find("out of memory, of which this process has had ") == 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("of a program without stdin, stdout and stderr no file gets what it says") {
  const auto [said, status] = Run(FirstDescriptor, /*closed=*/true);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) > STDERR_FILENO);
}

TEST_CASE("what gRPC logs has the form of the log, and handshakes that fail are left out") {
  const auto [said, status] = Run(LogsOfGrpc);
  INFO(said);
  CHECK(said.starts_with("{\"ts\":"));
  CHECK(said.find("\"task\":\"grpc\"") != std::string::npos);
  CHECK(said.find("accept4 failed: \\\\x1b[31mno socket") != std::string::npos);
  CHECK(said.find("Handshake") == std::string::npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

TEST_CASE("a daemon prints its version") {
  const auto [said, status] = Run(AsksForVersion);
  CHECK(said == VersionText("paracord-ps") + "\n");
  CHECK(said.find(", protocol " + std::to_string(kProtocol)) != std::string::npos);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a program leaves with the exit code of its main") {
  const auto [said, status] = Run(Three);
  CHECK(said.empty());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
}

}  // namespace
}  // namespace paracord
