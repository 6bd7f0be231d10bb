#include "common/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
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

// Runs in the child, which may call only functions that are safe after fork.
[[noreturn]] void Become(const std::vector<char*>& argv, const std::vector<char*>& environment,
                         const SpawnOptions& options, pid_t parent) {
  setsid();
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kPeerLost));  // it died before that
  // A shell makes what it puts into the background ignore SIGINT. It is reset before the mask lets
  // it in, since one may be pending.
  signal(SIGINT, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(options.input >= 0 ? options.input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(options.output, STDOUT_FILENO);
  dup2(options.output, STDERR_FILENO);
  execve(argv[0], argv.data(), environment.data());
  _exit(static_cast<int>(ExitCode::kConfiguration));
}

}  // namespace

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
