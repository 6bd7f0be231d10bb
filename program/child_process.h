// A program of the user, run as a child of this process, with a socket for JSON packets (the
// child's descriptor 3), a memory file mapped by both (descriptor 4), and a pipe that delivers the
// child's output line by line. The child dies with the thread that started it, which should live as
// long as the process; the child's forks and folder go with the process. Used by one thread at a
// time, except functions marked "any thread".
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "nlohmann/json.hpp"
#include "program/group_guard.h"
#include "program/running_children.h"
#include "program/spin.h"

namespace paracord {

struct ChildOptions {
  std::vector<std::string> command;
  std::string directory;                 // the child's directory, removed if we are killed
  std::vector<std::string> environment;  // "NAME=value", beside ours
  // Called with each line of the child's output, on a reader thread.
  std::function<void(const std::string& line)> log;
  int threads = 1;  // threads for the child's computation
  // Registry of this child; null: not registered.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ChildProcess {
 public:
  // NOT_FOUND if the program does not exist.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  ~ChildProcess();  // kills the child and its process group
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // UNAVAILABLE if a packet cannot be sent, does not arrive in time, or is no JSON object; the
  // message tells how the child ended, if known. The child is unusable afterwards.
  absl::Status Send(const nlohmann::json& packet);
  absl::StatusOr<nlohmann::json> Receive(int64_t wait_ms);

  // Sets the memory file's size, once, and maps the file. The memory is zeroed.
  absl::StatusOr<std::span<char>> MapMemory(uint64_t bytes);

  // Notes that the child serves requests from now on, and hence understands "bye".
  void TakesRequests() { takes_requests_ = true; }
  // Says goodbye to a child that serves requests. Any thread.
  void SayBye();
  // Waits up to kByeMs after the goodbye for the child to leave, then kills the rest of its process
  // group and removes its folder. Any thread; the child is unusable afterwards.
  void EndNow();

  pid_t pid() const { return pid_; }
  // Whether the child's known end was by a signal not sent by us.
  bool killed() const { return killed_; }

 private:
  explicit ChildProcess(const ChildOptions& options);
  bool HasLeft() const;
  ssize_t ReceiveNow();
  ssize_t ReceiveSoon();
  absl::Status Lost(const std::string& why);
  std::optional<std::string> WaitForEnd(int64_t wait_ms);  // returns how the child ended
  void End();
  void ReadOutput();
  void TakeLine(std::string& line);

  const std::string directory_;
  const std::shared_ptr<RunningChildren> running_;
  pid_t pid_ = 0;
  GroupGuard guard_;
  std::atomic<bool> takes_requests_{false};
  std::atomic<int64_t> bye_until_ms_{0};  // 0: no goodbye was sent
  int exit_watch_ = -1;                   // the child's pidfd, on kernels with pidfds
  int socket_ = -1, memory_ = -1, output_ = -1;
  std::span<char> mapped_;
  std::vector<char> packet_;
  Spin spin_;
  std::optional<std::string> ended_;
  bool killed_ = false;
  std::function<void(const std::string&)> log_;
  std::atomic<bool> stop_{false};
  std::thread reader_;
  Mutex mu_;
  std::string last_line_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
