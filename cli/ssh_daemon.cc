#include "cli/ssh_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"

namespace paracord {

// A longer line is shown in several parts.
constexpr size_t kLineBytesMax = 64 * 1024;

SshDaemon::SshDaemon(std::string task, std::string log, std::ostream& out)
    : task_(std::move(task)), log_(std::move(log)), out_(out) {}

SshDaemon::~SshDaemon() {
  if (from_ >= 0) close(from_);
  if (to_ >= 0) close(to_);
}

absl::StatusOr<pid_t> SshDaemon::Start(SpawnOptions spawn) {
  Close();
  int output[2], input[2];
  if (pipe2(output, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  if (pipe2(input, O_CLOEXEC) != 0) {
    const int error = errno;
    close(output[0]);
    close(output[1]);
    return absl::ErrnoToStatus(error, "cannot make a pipe");
  }
  from_ = output[0];
  to_ = input[1];
  for (const int ours : {from_, to_}) fcntl(ours, F_SETFL, O_NONBLOCK);
  spawn.output = output[1];
  spawn.input = input[0];
  absl::StatusOr<pid_t> pid = Spawn(spawn);
  close(output[1]);
  close(input[0]);
  return pid;
}

void SshDaemon::Tell(int signal) {
  if (to_ < 0) return;
  // A daemon started in the background by a shell ignores SIGINT until it installs a handler.
  const int passed = signal == SIGINT ? SIGTERM : signal;
  const std::string line = absl::StrCat(sigabbrev_np(passed), "\n");
  // A failed write means that the daemon has ended or the connection is lost; Reap notices.
  (void)!write(to_, line.data(), line.size());
}

void SshDaemon::Read() {
  if (from_ < 0) return;
  char bytes[4096];
  for (ssize_t count = 0; (count = read(from_, bytes, sizeof bytes)) > 0;) {
    pending_.append(bytes, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      Show(pending_.substr(begin, end - begin));
    }
    pending_.erase(0, begin);
    if (pending_.size() > kLineBytesMax) Show(std::exchange(pending_, ""));
  }
}

void SshDaemon::Close() {
  Read();
  if (!pending_.empty()) Show(std::exchange(pending_, ""));
  if (from_ >= 0) close(std::exchange(from_, -1));
  if (to_ >= 0) close(std::exchange(to_, -1));
}

void SshDaemon::Show(const std::string& line) {
  // The log is opened for each line, since its directory may have been removed and made again.
  std::ofstream(log_, std::ios::app) << line << "\n";
  out_ << TerminalText(absl::StrCat(task_, " | ", line)) << std::endl;
}

}  // namespace paracord
