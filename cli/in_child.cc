#include "cli/in_child.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr rlim_t kCpuSeconds = 600;  // a damaged file may have the library go in circles

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Writes the status's code as a byte, and the result or the message behind it.
[[noreturn]] void BeChild(int fd, const std::function<absl::StatusOr<std::string>()>& work) {
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(crash, SIG_DFL);
  const rlimit none = {0, 0}, cpu = {kCpuSeconds, kCpuSeconds};
  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_CPU, &cpu);
  const absl::StatusOr<std::string> result = work();
  const char code = static_cast<char>(result.status().code());
  const std::string said(result.status().message());
  const bool written = WriteAll(fd, std::string_view(&code, 1)) &&
                       WriteAll(fd, result.ok() ? std::string_view(*result) : said);
  _exit(written ? 0 : 1);
}

}  // namespace

absl::StatusOr<std::string> InChild(const std::string& file,
                                    const std::function<absl::StatusOr<std::string>()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return absl::ErrnoToStatus(errno, "cannot start a process");
  }
  if (child == 0) {
    close(ends[0]);
    BeChild(ends[1], work);
  }
  close(ends[1]);
  std::string bytes;
  constexpr size_t kPiece = 1 << 20;
  while (true) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    const ssize_t count = read(ends[0], bytes.data() + before, kPiece);
    bytes.resize(before + static_cast<size_t>(count > 0 ? count : 0));
    if (count == 0 || (count < 0 && errno != EINTR)) break;
  }
  close(ends[0]);
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(how) || WEXITSTATUS(how) != 0 || bytes.empty()) {
    return absl::DataLossError(
        absl::StrCat(file, ": is damaged: what reads it has crashed",
                     WIFSIGNALED(how) ? absl::StrCat(" (signal ", WTERMSIG(how), ")") : ""));
  }
  const auto code = static_cast<absl::StatusCode>(bytes[0]);
  bytes.erase(0, 1);
  if (code != absl::StatusCode::kOk) return absl::Status(code, bytes);
  return bytes;
}

}  // namespace paracord
