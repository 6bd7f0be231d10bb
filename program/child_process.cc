#include "program/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/one_line.h"
#include "common/spawn.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "common/try_thread.h"

namespace paracord {
namespace {

constexpr size_t kPacketMax = 256 << 10;  // largest packet; above the default socket buffer
constexpr size_t kLineMax = 4096;
constexpr char kKilled[] = "it was killed by signal ";
constexpr int64_t kEndMs = 1000;  // from the end of a child's socket to the child's own end
constexpr int64_t kByeMs = 2000;  // from a goodbye to the end of the child

void CloseOnce(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// Waits until one of two descriptors is readable; false on timeout.
bool AwaitEither(int first, int second, int64_t until_ms) {
  pollfd watched[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  while (true) {
    const int64_t left = std::clamp<int64_t>(until_ms - SteadyMs(), 0, 1000 * 1000);
    const int ready = poll(watched, 2, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready == 0 && left == 0) return false;
    if (ready < 0 && errno != EINTR) return true;  // the next receive returns the error
  }
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options)
    : directory_(options.directory),
      running_(options.running),
      spin_(HasCpuBeside(options.threads)),
      log_(options.log) {}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options) {
  std::unique_ptr<ChildProcess> child(new ChildProcess(options));
  int sockets[2] = {-1, -1};
  int output[2] = {-1, -1};
  const auto give_up = [&](const char* what) {
    const absl::Status status = absl::ErrnoToStatus(errno, what);
    for (int* const each : {&sockets[1], &output[1]}) CloseOnce(*each);
    return status;
  };
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return give_up("cannot make a socket for the program");
  }
  child->socket_ = sockets[0];
  if (pipe2(output, O_CLOEXEC) != 0) return give_up("cannot make a pipe for the program");
  child->output_ = output[0];
  child->memory_ = memfd_create("paracord-program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (child->memory_ < 0) return give_up("cannot make a memory file for the program");
  SpawnOptions spawn;
  spawn.command = options.command;
  spawn.command[0] = FindProgram(spawn.command[0]);
  spawn.environment = options.environment;
  spawn.directory = options.directory;
  spawn.output = output[1];
  spawn.descriptors = {sockets[1], child->memory_};
  // A relative command names a file of the job, in the child's directory.
  const std::string own = absl::StrCat(options.directory, "/", spawn.command[0]);
  if (!spawn.command[0].starts_with('/') && access(own.c_str(), F_OK) == 0) spawn.command[0] = own;
  absl::StatusOr<pid_t> pid = Spawn(spawn);
  if (pid.ok()) child->guard_.Watch(*pid, options.directory, output[1]);
  for (int* const each : {&sockets[1], &output[1]}) CloseOnce(*each);
  if (!pid.ok()) {
    return absl::Status(
        pid.status().code(),
        absl::StrCat(std::string(pid.status().message()),
                     " (a `command` begins with a program that each worker has in PATH, with a "
                     "path, which may be relative to the job file, or with one of `files`)"));
  }
  child->pid_ = *pid;
#ifdef SYS_pidfd_open
  child->exit_watch_ = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
#endif
  child->packet_.resize(kPacketMax);
  auto reader = TryThread([raw = child.get()] { raw->ReadOutput(); });
  if (!reader.has_value()) return absl::UnavailableError("cannot start a thread for the program");
  child->reader_ = *std::move(reader);
  if (child->running_ != nullptr && !child->running_->Add(child.get())) {
    return absl::CancelledError("this process leaves");
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (running_ != nullptr) running_->Remove(this);
  End();
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
  for (int* const each : {&socket_, &memory_, &output_, &exit_watch_}) CloseOnce(*each);
}

std::optional<std::string> ChildProcess::WaitForEnd(int64_t wait_ms) {
  const int64_t until_ms = SteadyMs() + wait_ms;
  int status = 0;
  while (true) {
    const pid_t pid = waitpid(pid_, &status, WNOHANG);
    if (pid == pid_) break;
    if (pid < 0 && errno != EINTR) return "it is gone";
    if (SteadyMs() >= until_ms) return std::nullopt;
    usleep(1000);
  }
  if (WIFEXITED(status)) return absl::StrCat("it ended with exit code ", WEXITSTATUS(status));
  return absl::StrCat(kKilled, WTERMSIG(status));
}

void ChildProcess::End() {
  if (pid_ != 0 && !ended_.has_value()) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    ended_ = WaitForEnd(kEndMs).value_or("it cannot be killed");
  } else if (pid_ != 0) {
    kill(-pid_, SIGKILL);  // processes left behind by the child
  }
  stop_ = true;
  if (reader_.joinable()) reader_.join();
}

void ChildProcess::SayBye() {
  if (!takes_requests_) return;
  constexpr std::string_view kBye = R"({"do":"bye"})";
  (void)send(socket_, kBye.data(), kBye.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  bye_until_ms_ = SteadyMs() + kByeMs;
}

// Peeks at the child's end without reaping: the user of the child still waits for it.
bool ChildProcess::HasLeft() const {
  siginfo_t info = {};
  const int found = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return found != 0 ? errno == ECHILD : info.si_pid == pid_;
}

void ChildProcess::EndNow() {
  while (!HasLeft() && SteadyMs() < bye_until_ms_) usleep(1000);
  kill(-pid_, SIGKILL);
  // Processes being killed may still create files there.
  constexpr int kTries = 100;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    std::filesystem::remove_all(directory_, error);
    if (!error) break;
    usleep(1000);
  }
}

absl::Status ChildProcess::Lost(const std::string& why) {
  // The exit status of a dying child explains more than the error of its socket.
  if (!ended_.has_value()) ended_ = WaitForEnd(why.empty() ? kEndMs : 0);
  killed_ = ended_.has_value() && ended_->starts_with(kKilled);
  const std::string how = ended_.value_or(why.empty() ? "it closed its descriptor 3" : why);
  End();
  MutexLock lock(mu_);
  return absl::UnavailableError(
      absl::StrCat(how, last_line_.empty() ? "" : "; its last line: " + last_line_));
}

absl::Status ChildProcess::Send(const nlohmann::json& packet) {
  const std::string text = TextOf(packet);
  ssize_t sent = 0;
  do {
    sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  if (errno == EPIPE || errno == ECONNRESET) return Lost("");
  return Lost(absl::StrCat("it takes no packet of ", text.size(), " bytes: ", strerror(errno)));
}

ssize_t ChildProcess::ReceiveNow() {
  return recv(socket_, packet_.data(), packet_.size(), MSG_TRUNC | MSG_DONTWAIT);
}

// Below 0 with EAGAIN: nothing has come yet.
ssize_t ChildProcess::ReceiveSoon() {
  errno = EAGAIN;
  if (!spin_.Try()) return -1;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(Spin::kNs);
  ssize_t got = -1;
  do {
    got = ReceiveNow();
  } while (got < 0 && errno == EAGAIN && std::chrono::steady_clock::now() < until);
  spin_.Ended(got >= 0);
  return got;
}

absl::StatusOr<nlohmann::json> ChildProcess::Receive(int64_t wait_ms) {
  const int64_t until_ms = SteadyMs() + wait_ms;
  ssize_t got = ReceiveSoon();
  while (got < 0 && errno != ECONNRESET) {
    if (!AwaitEither(socket_, exit_watch_, until_ms)) {
      return Lost(absl::StrCat("it did not answer within ", wait_ms, " ms"));
    }
    got = ReceiveNow();
    if (got >= 0 || errno == ECONNRESET) break;
    if (errno == EINTR) continue;
    // The child has ended, but a descendant still holds the socket.
    if (errno != EAGAIN) return Lost(strerror(errno));
    return Lost("");
  }
  if (got <= 0) return Lost("");
  if (static_cast<size_t>(got) > packet_.size()) {
    return Lost(absl::StrCat("it sent a packet of ", got, " bytes, above the ", packet_.size(),
                             " that one may have"));
  }
  const std::string_view text(packet_.data(), static_cast<size_t>(got));
  nlohmann::json packet = JsonOf(text);
  if (packet.is_object()) return packet;
  return Lost(absl::StrCat("it sent what is no JSON object: ", OneLine(text, 80)));
}

absl::StatusOr<std::span<char>> ChildProcess::MapMemory(uint64_t bytes) {
  // Sealed: a child that shrank the file would make our reads of the mapping crash.
  void* data = MAP_FAILED;
  if (ftruncate(memory_, static_cast<off_t>(bytes)) == 0 &&
      fcntl(memory_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  }
  if (data == MAP_FAILED) {
    return Lost(absl::StrCat("its memory file cannot have ", bytes, " bytes: ", strerror(errno)));
  }
  mapped_ = {static_cast<char*>(data), bytes};
  return mapped_;
}

void ChildProcess::TakeLine(std::string& line) {
  absl::StripTrailingAsciiWhitespace(&line);
  const std::string text = OneLine(std::exchange(line, ""), kLineMax);
  if (text.empty()) return;
  if (log_) log_(text);
  MutexLock lock(mu_);
  last_line_ = text;
}

// Reads until the child and its descendants have closed their output, or, after the child's end,
// until the pipe is empty.
void ChildProcess::ReadOutput() {
  constexpr int kLookMs = 50;
  std::string line;
  char some[4096];
  while (true) {
    pollfd watched = {output_, POLLIN, 0};
    const int ready = poll(&watched, 1, kLookMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && stop_) break;
    if (ready == 0) continue;
    const ssize_t got = read(output_, some, sizeof some);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (const char c : std::string_view(some, static_cast<size_t>(got))) {
      if (c == '\n' || line.size() >= kLineMax) TakeLine(line);
      if (c != '\n') line += c;
    }
  }
  TakeLine(line);
}

}  // namespace paracord
