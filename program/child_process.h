// A program of the user, run as a child of this process, with a socket for JSON packets (the
// child's descriptor 3), a memory file that parent and child map (descriptor 4), and a pipe for the
// child's output. The child dies with the thread that called Start, which should live as long as
// the process. If this process ends without calling destructors, as by kill -9, the child's process
// group is killed and ChildOptions::directory is removed (group_guard.h). Used by one thread at a
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
  std::string directory;  // the child's working directory
  // "NAME=value": variables that the child has beyond those of this process.
  std::vector<std::string> environment;
  // Called with each line of the child's output, on a thread that reads the output.
  std::function<void(const std::string& line)> log;
  // How many threads the child computes with. Receive polls for a packet before it sleeps only if
  // the thread that calls Start may run on more CPUs than `threads`.
  int threads = 1;
  // The registry that the child is entered in; null: none.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ChildProcess {
 public:
  // NOT_FOUND if the program does not exist or cannot be executed; CANCELLED if
  // RunningChildren::EndAll of `running` has begun.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  ~ChildProcess();  // kills the child and its process group
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Send returns UNAVAILABLE if the packet cannot be sent, Receive if no packet arrives within
  // `wait_ms` or if the packet is no JSON object of at most 256 KiB. The error's message tells how
  // the child ended, if known. After an error the child has been killed.
  absl::Status Send(const nlohmann::json& packet);
  absl::StatusOr<nlohmann::json> Receive(int64_t wait_ms);

  // Sets the memory file's size and maps the file, filled with zeros. Called at most once. If the
  // file cannot have the size or be mapped, kills the child and returns UNAVAILABLE.
  absl::StatusOr<std::span<char>> MapMemory(uint64_t bytes);

  // The child serves requests from now on, and hence understands the packet "bye".
  void TakesRequests() { takes_requests_ = true; }
  // Sends "bye" to the child after TakesRequests; does nothing before. Any thread.
  void SayBye();
  // If SayBye has sent "bye", waits for the child's end until 2 s after the "bye". Then kills the
  // child's process group and removes ChildOptions::directory; the child is unusable. Any thread.
  void EndNow();

  pid_t pid() const { return pid_; }
  // Whether Send, Receive or MapMemory has failed and found that a signal had ended the child.
  bool killed() const { return killed_; }

 private:
  explicit ChildProcess(const ChildOptions& options);
  bool HasLeft() const;
  ssize_t ReceiveNow();
  ssize_t ReceiveSoon();
  absl::Status Lost(const std::string& why);
  // Returns how the child ended; nullopt: the child has not ended.
  std::optional<std::string> WaitForEnd(int64_t wait_ms);
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
