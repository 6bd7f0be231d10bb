#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <iostream>
#include <new>
#include <string>

#include "net/grpc/daemon_process.h"

namespace paracord {
namespace {

void Throw() { throw std::bad_alloc(); }
int NoMemory(int, char**) noexcept {
  Throw();
  return 0;
}
int Three(int, char**) { return 3; }

int FirstDescriptor(int, char**) { return open("/dev/null", O_RDONLY); }

// Returns what a program with this main writes to stderr, and how it ends.
std::pair<std::string, int> Run(int (*main)(int, char**), bool closed = false) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::cout.flush();  // what is ours is not the child's to print
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

TEST_CASE("a program leaves with the exit code of its main") {
  const auto [said, status] = Run(Three);
  CHECK(said.empty());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
}

}  // namespace
}  // namespace paracord
