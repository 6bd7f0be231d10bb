#include "daemon/restarts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/steady_ms.h"
#include "daemon/daemon_process.h"

namespace paracord {
namespace {

// From this exit code on a restart may help, except after a daemon was told to leave.
constexpr int kRestartMayHelp = 128;
constexpr int64_t kPauseMaxMs = 8000;

int CodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

class FirstProcess {
 public:
  explicit FirstProcess(const RestartOptions& options) : options_(options), log_(options.task) {
    signals_ = LeaveSignals();
    sigaddset(&signals_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
    signal(SIGCHLD, SIG_DFL);
  }

  std::optional<int> Run() {
    for (int64_t restarts = 0;; ++restarts) {
      const int64_t since_ms = SteadyMs();
      const pid_t child = Fork();
      if (child == 0) return std::nullopt;
      if (child < 0) return static_cast<int>(ExitCode::kPeerLost);
      const int code = Await(child);
      if (SteadyMs() - since_ms >= options_.sound_ms) restarts = 0;
      const bool helps = code >= kRestartMayHelp && code != static_cast<int>(ExitCode::kDrained);
      if (told_ || !helps || restarts >= options_.restarts_max) return code;
      log_.Warn("the daemon ended with code {} and is started again ({} of {} times)", code,
                restarts + 1, options_.restarts_max);
      if (restarts > 0) Pause(options_.first_pause_ms << std::min<int64_t>(restarts - 1, 6));
      if (told_) return static_cast<int>(ExitCode::kDrained);
    }
  }

 private:
  pid_t Fork() {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0) return child;
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(static_cast<int>(ExitCode::kPeerLost));
    return 0;
  }

  // Waits for the end of the daemon, and of orphans adopted from the daemon.
  int Await(pid_t child) {
    while (true) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended == child) return CodeOf(status);
      if (ended > 0) continue;
      int signal = 0;
      if (sigwait(&signals_, &signal) != 0 || signal == SIGCHLD) continue;
      told_ = true;
      kill(child, signal);
    }
  }

  void Pause(int64_t pause_ms) {
    const int64_t end_ms = SteadyMs() + std::min(pause_ms, kPauseMaxMs);
    while (!told_ && SteadyMs() < end_ms) {
      const int64_t left_ms = end_ms - SteadyMs();
      const timespec wait{.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
      const int signal = sigtimedwait(&signals_, nullptr, &wait);
      told_ = signal > 0 && signal != SIGCHLD;
    }
  }

  const RestartOptions options_;
  const Logger log_;
  sigset_t signals_;
  sigset_t before_;
  bool told_ = false;  // SIGTERM, SIGINT or SIGHUP came
};

}  // namespace

std::optional<int> RestartWhereItHelps(const RestartOptions& options) {
  if (options.restarts_max == 0) return std::nullopt;
  return FirstProcess(options).Run();
}

}  // namespace paracord
