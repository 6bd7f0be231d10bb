#include "common/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

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

// Descriptors 3, 4, ... become these, and all others are closed at execve. First they are copied
// out of each other's way.
void PassDescriptors(const std::vector<int>& descriptors) {
  constexpr int kFirst = 3, kMost = 8;
  int copies[kMost];
  int count = 0;
  for (const int descriptor : descriptors) {
    if (count == kMost) break;
    copies[count++] = fcntl(descriptor, F_DUPFD, kFirst + kMost);
  }
#ifdef SYS_close_range
  constexpr unsigned kOnExec =
      4;  // CLOSE_RANGE_CLOEXEC; an older kernel closes what says so itself
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

// Runs in the child, which may call only functions that are safe after fork.
[[noreturn]] void Become(const std::vector<char*>& argv, const std::vector<char*>& environment,
                         const SpawnOptions& options, pid_t parent) {
  setsid();
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kPeerLost));  // it died before that
  // A shell makes what it puts into the background ignore SIGINT. It is reset before the mask lets
  // it in, since one may be pending.
  signal(SIGINT, SIG_DFL);
  if (!options.descriptors.empty()) ResetSignals();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(options.input >= 0 ? options.input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(options.output, STDOUT_FILENO);
  dup2(options.output, STDERR_FILENO);
  if (!options.descriptors.empty()) PassDescriptors(options.descriptors);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) {
    _exit(static_cast<int>(ExitCode::kConfiguration));
  }
  execve(argv[0], argv.data(), environment.data());
  _exit(static_cast<int>(ExitCode::kConfiguration));
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
  if (access(options.command[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("there is no program ", options.command[0]));
  }
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
  const pid_t pid = fork();
  if (pid == 0) Become(argv, envp, options, parent);
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  return pid;
}

}  // namespace paracord
