// A program that a test runs in a session of its own, with its output in a file; it is killed with
// the test in any case. Used in the main thread (a child dies with the thread that forked it).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paracord::e2e {

using Variables = std::map<std::string, std::string>;

// The exit code of a process, or minus the signal that killed it.
using Exit = int;

class Process {
 public:
  // `environment` is added to the test's own; output is appended to the log.
  Process(const std::vector<std::string>& command, const Variables& environment,
          const std::string& log);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal) const;
  // Collects the process if it has ended; later calls return the same answer.
  std::optional<Exit> Poll();
  std::optional<Exit> Wait(int64_t wait_ms);
  void Kill();  // SIGKILL, and waits

 private:
  pid_t pid_ = 0;
  std::optional<Exit> exit_;
};

int64_t NowMs();
// Calls `done` every few milliseconds until it returns true or the time is over; returns whether it
// did.
bool WaitUntil(int64_t wait_ms, const std::function<bool()>& done);

std::string ReadText(const std::string& path);  // "" if it cannot be read
void WriteText(const std::string& path, const std::string& text);
// Returns what lies in the folder and other users may read or write, the folder included.
std::vector<std::string> OpenToOthers(const std::string& folder);

}  // namespace paracord::e2e
