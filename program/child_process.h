// A program of the user, run as a child of this process, with a socket for JSON packets (the
// child's descriptor 3), a memory file that parent and child map (descriptor 4), and a pipe for the
// child's output. The child dies with the thread that called Start, which should live as long as
// the process. If this process is killed, the child's process group is killed and its folder
// removed (group_guard.h). Used by one thread at a time, except functions marked "any thread".
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
  std::string directory;  // the child's working directory; removed if this process is killed
  std::vector<std::string> environment;  // "NAME=value", added to this process's environment
  // Called with each line of the child's output, on a reader thread.
  std::function<void(const std::string& line)> log;
  // How many threads the child computes with. Receive polls before it sleeps only if this process
  // may use more CPUs.
  int threads = 1;
  // The registry that the child is entered in; null: none.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ChildProcess {
 public:
  // NOT_FOUND if the program does not exist; CANCELLED if `running` takes no more children.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  ~ChildProcess();  // kills the child and its process group
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // UNAVAILABLE if a packet cannot be sent, does not arrive within `wait_ms`, or is no JSON object;
  // the message tells how the child ended, if known. The child has then been killed.
  absl::Status Send(const nlohmann::json& packet);
  absl::StatusOr<nlohmann::json> Receive(int64_t wait_ms);

  // Sets the memory file's size and maps the file, filled with zeros. Called once. UNAVAILABLE, and
  // the child is killed, if the memory file cannot have the size.
  absl::StatusOr<std::span<char>> MapMemory(uint64_t bytes);

  // The child serves requests from now on, and hence understands the packet "bye".
  void TakesRequests() { takes_requests_ = true; }
  // Sends "bye" to a child that serves requests; does nothing for another child. Any thread.
  void SayBye();
  // Waits for the child to leave until 2 s after a "bye", without a "bye" not at all. Then kills
  // its process group and removes its folder. Any thread. The child is unusable afterwards.
  void EndNow();

  pid_t pid() const { return pid_; }
  // Whether Send, Receive or MapMemory failed because a signal had ended the child.
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
  std::atomic<int64_t> bye_until_ms_{0};  // EndNow waits until this time; 0: SayBye sent nothing
  int exit_watch_ = -1;                   // the child's pidfd; -1 on kernels without pidfds
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
