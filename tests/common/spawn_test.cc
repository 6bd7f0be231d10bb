#include "common/spawn.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/fakes.h"

namespace paracord {
namespace {

int ExitCodeOf(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a child has the given variables instead of ours, and writes where it is told") {
  const TestDirectory directory;
  const std::string path = directory.path() + "/out";
  setenv("SPAWN_TEST_OURS", "ours", 1);
  setenv("SPAWN_TEST_BOTH", "ours", 1);
  SpawnOptions options;
  options.command = {"/bin/sh", "-c",
                     "echo $SPAWN_TEST_OURS $SPAWN_TEST_BOTH $SPAWN_TEST_NEW $1; "
                     "echo error >&2; read line || exit 7",
                     "sh", "an argument"};
  options.environment = {"SPAWN_TEST_BOTH=theirs", "SPAWN_TEST_NEW=a=b"};
  options.output = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(options.output >= 0);
  const absl::StatusOr<pid_t> pid = Spawn(options);
  close(options.output);
  REQUIRE(pid.ok());
  CHECK(ExitCodeOf(*pid) == 7);  // stdin is empty, not the test's
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == "ours theirs a=b an argument\nerror\n");
}

TEST_CASE("a child reads from where it is told") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  SpawnOptions options;
  options.command = {"/bin/sh", "-c", "read -r line && [ \"$line\" = 'a line' ] && exit 5"};
  options.output = STDERR_FILENO;
  options.input = ends[0];
  const absl::StatusOr<pid_t> pid = Spawn(options);
  close(ends[0]);
  REQUIRE(pid.ok());
  CHECK(write(ends[1], "a line\n", 7) == 7);
  close(ends[1]);
  CHECK(ExitCodeOf(*pid) == 5);
}

TEST_CASE("a child is the leader of its own session, and can be told from one that never began") {
  SpawnOptions options;
  options.output = STDERR_FILENO;
  options.command = {"/bin/sleep", "60"};
  const absl::StatusOr<pid_t> pid = Spawn(options);
  REQUIRE(pid.ok());
  while (getsid(*pid) != *pid) usleep(1000);  // the child is between fork and setsid
  kill(*pid, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(*pid, &status, 0) == *pid);
  CHECK(WIFSIGNALED(status));

  options.command = {"/nonexistent/program"};
  const absl::Status none = Spawn(options).status();
  CHECK(absl::IsNotFound(none));
  CHECK(none.message() == "there is no program /nonexistent/program");
}

TEST_CASE("a program that cannot be executed is named, with the reason and what to do") {
  const TestDirectory directory;
  const auto why = [&](const std::string& program, const std::string& folder = "") {
    SpawnOptions options;
    options.output = STDERR_FILENO;
    options.command = {program};
    options.directory = folder;
    const absl::Status status = Spawn(options).status();
    CHECK(waitpid(-1, nullptr, WNOHANG) < 0);  // no child is left
    return std::string(status.message());
  };
  const auto write = [&](const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = directory.Write(name, text);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    return path;
  };
  CHECK(why("no-such") == "there is no program no-such in PATH");
  CHECK(why("/tmp") == "cannot execute /tmp: Permission denied: it is a folder");
  const std::string plain = write("plain", "#!/bin/sh\n", 0600);
  CHECK(why(plain) == "cannot execute " + plain +
                          ": Permission denied: make it executable (chmod +x), or name its "
                          "interpreter in front of it");
  const std::string bare = write("bare", "echo 1\n", 0700);
  CHECK(why(bare).starts_with("cannot execute " + bare + ": Exec format error: it is no program"));
  const std::string lost = write("lost", "#!/no/such/python\n", 0700);
  CHECK(why(lost).starts_with("cannot execute " + lost +
                              ": No such file or directory: the "
                              "interpreter that its first line (#!)"));
  CHECK(why("/bin/true", "/no/such") == "cannot enter /no/such: No such file or directory");
}

bool interrupts_child = false;

// A shell starts background programs with SIGINT ignored; Ctrl-C may come between fork and exec.
TEST_CASE("a child that is interrupted before it begins does not begin") {
  REQUIRE(pthread_atfork(nullptr, nullptr, [] {
            if (interrupts_child) raise(SIGINT);
          }) == 0);
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, &before);
  const auto handler = signal(SIGINT, SIG_IGN);
  interrupts_child = true;
  SpawnOptions options;
  options.output = STDERR_FILENO;
  options.command = {"/bin/true"};
  const absl::StatusOr<pid_t> pid = Spawn(options);
  interrupts_child = false;
  signal(SIGINT, handler);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  REQUIRE(pid.ok());
  int status = 0;
  REQUIRE(waitpid(*pid, &status, 0) == *pid);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("a child gets the descriptors that it is given, no others, and every signal's default") {
  const TestDirectory directory;
  const std::string path = directory.path() + "/out";
  int inherited[2];
  REQUIRE(pipe(inherited) == 0);  // no close-on-exec, as in a careless library
  signal(SIGUSR1, SIG_IGN);
  SpawnOptions options;
  options.command = {FindProgram("sh"), "-c",
                     "pwd; echo three >&3; echo four >&4; for f in /proc/self/fd/*; do echo "
                     "${f##*/}; done; grep SigIgn /proc/self/status"};
  options.directory = "/proc";
  options.output = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600);
  const int four = open((path + "4").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int three = open((path + "3").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  options.descriptors = {three, four};
  const absl::StatusOr<pid_t> pid = Spawn(options);
  signal(SIGUSR1, SIG_DFL);
  for (const int each : {options.output, three, four, inherited[0], inherited[1]}) close(each);
  REQUIRE(pid.ok());
  CHECK(ExitCodeOf(*pid) == 0);
  const auto read = [&](const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  CHECK(read(path + "3") == "three\n");
  CHECK(read(path + "4") == "four\n");
  // Descriptor 5 is the shell's: the folder being listed.
  const std::string said = read(path);
  INFO(said);
  CHECK(said.starts_with("/proc\n0\n1\n2\n3\n4\n"));
  CHECK(said.find("\n6\n") == std::string::npos);
  CHECK(said.find("SigIgn:\t0000000000000000") != std::string::npos);
}

}  // namespace
}  // namespace paracord
