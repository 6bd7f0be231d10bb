#include "common/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/exit_code.h"

namespace paracord {
namespace {

std::string Name(const std::string& entry) { return entry.substr(0, entry.find('=')); }

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

constexpr int kFirst = 3, kMost = 8;  // range of a child's extra descriptors

// Moves `descriptors` to 3, 4, ... and closes all others at execve. Copies them above the range
// first, to avoid collisions.
void PassDescriptors(const std::vector<int>& descriptors) {
  int copies[kMost];
  int count = 0;
  for (const int descriptor : descriptors) {
    if (count == kMost) break;
    copies[count++] = fcntl(descriptor, F_DUPFD, kFirst + kMost);
  }
#ifdef SYS_close_range
  constexpr unsigned kOnExec = 4;  // CLOSE_RANGE_CLOEXEC; older kernels rely on O_CLOEXEC
  syscall(SYS_close_range, static_cast<unsigned>(kFirst), ~0u, kOnExec);
#endif
  for (int i = 0; i < count; ++i) {
    dup2(copies[i], kFirst + i);
    fcntl(copies[i], F_SETFD, FD_CLOEXEC);
  }
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
}

// The report, in a pipe closed by a successful execve, of a child that failed to start the program.
struct Failure {
  bool in_directory = false;  // the child could not enter its directory
  int error = 0;
};

[[noreturn]] void GiveUp(int pipe, bool in_directory) {
  const Failure failure{in_directory, errno};
  (void)!write(pipe, &failure, sizeof failure);
  _exit(static_cast<int>(ExitCode::kConfiguration));
}

// Runs in the child; only async-signal-safe functions are allowed after fork.
[[noreturn]] void Become(const std::vector<char*>& argv, const std::vector<char*>& environment,
                         const SpawnOptions& options, pid_t parent, int pipe) {
  setsid();
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kPeerLost));  // the parent died first
  // A shell makes background jobs ignore SIGINT. Reset before unblocking, because a SIGINT may be
  // pending.
  signal(SIGINT, SIG_DFL);
  if (!options.descriptors.empty()) ResetSignals();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(options.input >= 0 ? options.input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(options.output, STDOUT_FILENO);
  dup2(options.output, STDERR_FILENO);
  if (!options.descriptors.empty()) PassDescriptors(options.descriptors);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) GiveUp(pipe, true);
  execve(argv[0], argv.data(), environment.data());
  GiveUp(pipe, false);
}

absl::Status CannotRun(const std::string& program, int error) {
  const bool there = access(program.c_str(), F_OK) == 0;
  if (error == ENOENT && !there) {
    const bool by_path = program.find('/') == std::string::npos;
    return absl::NotFoundError(
        absl::StrCat("there is no program ", program, by_path ? " in PATH" : ""));
  }
  struct stat facts {};
  const bool folder = stat(program.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  const char* const advice =
      folder             ? ": it is a folder"
      : error == EACCES  ? ": make it executable (chmod +x), or name its interpreter in front of it"
      : error == ENOEXEC ? ": it is no program for this machine; begin a script with #!, or name "
                           "its interpreter in front of it"
      : error == ENOENT  ? ": the interpreter that its first line (#!) or its header names is not "
                           "there"
                         : "";
  return absl::NotFoundError(
      absl::StrCat("cannot execute ", program, ": ", strerror(error), advice));
}

}  // namespace

std::string FindProgram(const std::string& name) {
  const char* const path = std::getenv("PATH");
  if (name.find('/') != std::string::npos || path == nullptr) return name;
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  if (access(options.command[0].c_str(), X_OK) != 0) return CannotRun(options.command[0], errno);
  std::vector<std::string> environment = options.environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::any_of(options.environment.begin(), options.environment.end(),
                    [&](const std::string& ours) { return Name(ours) == Name(*entry); });
    if (!replaced) environment.emplace_back(*entry);
  }
  std::vector<std::string> command = options.command;
  const std::vector<char*> argv = Pointers(command);
  const std::vector<char*> envp = Pointers(environment);
  const pid_t parent = getpid();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  // Moves the pipe above the child's descriptors.
  const int end = fcntl(ends[1], F_DUPFD_CLOEXEC, kFirst + kMost);
  close(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) Become(argv, envp, options, parent, end);
  const int forked = errno;
  close(end);
  Failure failure;
  ssize_t got = 0;
  do {
    got = pid < 0 ? 0 : read(ends[0], &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  close(ends[0]);
  if (pid < 0) return absl::ErrnoToStatus(forked, "cannot fork");
  if (got != sizeof failure) return pid;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!failure.in_directory) return CannotRun(command[0], failure.error);
  return absl::ErrnoToStatus(failure.error, "cannot enter " + options.directory);
}

}  // namespace paracord
