// A program of the user that runs as a child of this process: a socket for packets of JSON, which
// is its descriptor 3, a memory file that both map, its descriptor 4, and what it prints, line by
// line. It dies with the thread that started it, which should live as long as the process, and its
// own forks and its folder go with the process. Used by one thread at a time, but where a function
// says that any thread may call it.
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
  std::string directory;                 // where it starts, and which is removed if we are killed
  std::vector<std::string> environment;  // "NAME=value", beside ours
  // Called with each line that it prints, on a thread of the child's own.
  std::function<void(const std::string& line)> log;
  int threads = 1;                                     // with which it computes
  std::shared_ptr<RunningChildren> running = nullptr;  // which it is one of; null: nobody asks
};

class ChildProcess {
 public:
  // NOT_FOUND if there is no such program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  ~ChildProcess();  // kills it, and the processes of its group
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // UNAVAILABLE, which says how the child ended if it has, where a packet cannot be sent, where
  // none comes in time, and where one is no JSON object. The child is of no use after that.
  absl::Status Send(const nlohmann::json& packet);
  absl::StatusOr<nlohmann::json> Receive(int64_t wait_ms);

  // Gives the memory file its size, once, and maps it. It is zeros.
  absl::StatusOr<std::span<char>> MapMemory(uint64_t bytes);

  // The child has begun to take requests, of which a goodbye is one.
  void TakesRequests() { takes_requests_ = true; }
  // Says goodbye to a child that takes requests. Any thread.
  void SayBye();
  // Gives a child that was told goodbye until kByeMs after that to leave. Then it kills what is
  // left of its group, and removes the folder where it was started. Any thread; the child is of no
  // use after that.
  void EndNow();

  pid_t pid() const { return pid_; }
  // Whether a signal that was not ours has ended it, as far as it is known to have ended.
  bool killed() const { return killed_; }

 private:
  explicit ChildProcess(const ChildOptions& options);
  bool HasLeft() const;
  ssize_t ReceiveNow();
  ssize_t ReceiveSoon();
  absl::Status Lost(const std::string& why);
  std::optional<std::string> WaitForEnd(int64_t wait_ms);  // how it ended
  void End();
  void ReadOutput();
  void TakeLine(std::string& line);

  const std::string directory_;
  const std::shared_ptr<RunningChildren> running_;
  pid_t pid_ = 0;
  GroupGuard guard_;
  std::atomic<bool> takes_requests_{false};
  std::atomic<int64_t> bye_until_ms_{0};  // 0: it was not told goodbye
  int exit_watch_ = -1;                   // a descriptor of the process, where the kernel has these
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
