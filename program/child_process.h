// A program of the user that runs as a child of this process: a socket for packets of JSON, which
// is its descriptor 3, a memory file that both map, its descriptor 4, and what it prints, line by
// line. It dies with the thread that started it, which should live as long as the process. Used by
// one thread at a time.
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
#include "program/spin.h"

namespace paracord {

struct ChildOptions {
  std::vector<std::string> command;
  std::string directory;                 // where it starts
  std::vector<std::string> environment;  // "NAME=value", beside ours
  // Called with each line that it prints, on a thread of the child's own.
  std::function<void(const std::string& line)> log;
  int threads = 1;  // with which it computes
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

  pid_t pid() const { return pid_; }
  // Whether a signal that was not ours has ended it, as far as it is known to have ended.
  bool killed() const { return killed_; }

 private:
  explicit ChildProcess(bool may_spin) : spin_(may_spin) {}
  ssize_t ReceiveNow();
  ssize_t ReceiveSoon();
  absl::Status Lost(const std::string& why);
  std::optional<std::string> WaitForEnd(int64_t wait_ms);  // how it ended
  void End();
  void ReadOutput();
  void TakeLine(std::string& line);

  pid_t pid_ = 0;
  int exit_watch_ = -1;  // a descriptor of the process, where the kernel has these
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
